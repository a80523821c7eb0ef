"""Draws the ratios of `regard bench engine` by rows.

It does not know how they were measured.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from regard.benches.engine.figures import tables

_COLOURS = {"int8": "#1b6ca8", "float32": "#c8553d"}
_EQUAL = "#888888"


def draw(figures: dict[str, Any], path: Path) -> None:
    """Write a picture, whose kind the name's ending tells: one panel for each table."""
    found = tables(figures)
    figure = Figure(figsize=(3.4 * len(found), 3.2), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for panel, table in zip(panels, found, strict=True):
        sizes = sorted(table.cells)
        panel.axhline(1.0, color=_EQUAL, linewidth=1)
        for precision in dict.fromkeys(name for cells in table.cells.values() for name in cells):
            places = [place for place, size in enumerate(sizes) if precision in table.cells[size]]
            cells = [table.cells[sizes[place]][precision] for place in places]
            medians = [cell["ratio"] for cell in cells]
            around = [
                [cell["ratio"] - cell["low"] for cell in cells],
                [cell["high"] - cell["ratio"] for cell in cells],
            ]
            panel.errorbar(
                places, medians, yerr=around, marker="o", capsize=3, color=_COLOURS.get(precision), label=precision
            )
        panel.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        panel.set_xlabel("rows")
        panel.set_title(table.title, fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"throughput, {figures['theirs']['name']} = 1")
    panels[0].set_ylim(bottom=0.0)
    panels[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)  # pyright: ignore[reportUnknownMemberType] - half typed

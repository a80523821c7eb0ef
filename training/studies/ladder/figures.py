"""Draws the figures of the ladder: what each rung reaches, how it stands up to length, how it learnt.

It does not know how they were measured, nor the page around them; needs matplotlib.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# matplotlib leaves parts of its signatures open.

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.training.studies.ladder.lengths import Estimate
from regard.training.studies.ladder.report import LadderReport, LengthFigure, RungReport
from regard.training.studies.ladder.rungs import rung_of

# After Okabe and Ito, darkened for text: told apart with any kind of colour vision, and each rung has its own mark.
_LOOKS = {
    "multi30k_plain": ("#8A6D00", "s"),
    "multi30k_fixed": ("#C2185B", "^"),
    "multi30k_attention": ("#0072B2", "o"),
    "multi30k_transformer": ("#00795A", "D"),
}
_INK, _QUIET, _LINE = "#1b2733", "#5f6b78", "#e6eaee"
_STYLE: Any = {
    "font.size": 13,
    "text.color": _INK,
    "axes.edgecolor": "#aab4be",
    "axes.labelcolor": _QUIET,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 2.4,
    "lines.markersize": 8,
}

Label: TypeAlias = tuple[float, str, str]  # height, text, colour


def draw_figures(folder: Path, report: LadderReport) -> tuple[Path, ...]:
    """Write the figures as ladder-NAME.png into a folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, tuple[tuple[float, float], Callable[[Figure, LadderReport], None]]] = {
        "steps": ((10.5, 3.9), _draw_steps),
        "length": ((12.5, 5.2), _draw_lengths),
    }
    if any(rung.loss_curve for rung in report.rungs):
        figures["curves"] = ((8.0, 4.6), _draw_curves)
    written: list[Path] = []
    for name, (size, draw) in figures.items():
        with rc_context(_STYLE):
            figure = Figure(figsize=size, facecolor="white")
            # Room around what stands at the edges.
            figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1, wspace=0.02)
            draw(figure, report)
            path = folder / f"ladder-{name}.png"
            # Without the version of the program: the same figures give the same file.
            figure.savefig(path, dpi=160, metadata={"Software": None})
            written.append(path)
    return tuple(written)


def _draw_steps(figure: Figure, report: LadderReport) -> None:
    sets = list(report.test_sets)
    all_axes: Sequence[Axes] = list(figure.subplots(1, len(sets), sharey=True, squeeze=False)[0])
    rungs = report.rungs
    for axes, test in zip(all_axes, sets, strict=True):
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        for place, rung in enumerate(rungs):
            colour, mark = _LOOKS[rung.recipe]
            found = rung.bleu[test]
            axes.plot(
                [found.low, found.high], [place, place], color=colour, alpha=0.35, linewidth=7, solid_capstyle="round"
            )
            axes.plot(found.value, place, color=colour, marker=mark, markersize=10, linestyle="")
            axes.annotate(
                f"{found.value:.1f}",
                (found.value, place),
                (0, 13),
                textcoords="offset points",
                ha="center",
                color=colour,
                fontweight="bold",
            )
        axes.set_title(test)
        axes.set_xlabel("BLEU")
        axes.margins(x=0.12)
        axes.set_ylim(len(rungs) - 0.5, -0.65)
        axes.spines["left"].set_visible(False)
    all_axes[0].set_yticks(range(len(rungs)), [rung_of(rung.recipe).name for rung in rungs])
    for label, rung in zip(all_axes[0].get_yticklabels(), rungs, strict=True):
        label.set_color(_LOOKS[rung.recipe][0])


def _draw_lengths(figure: Figure, report: LadderReport) -> None:
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.35, 1))
    panels: tuple[tuple[Axes, str, str, Callable[[RungReport], Sequence[LengthFigure]]], ...] = (
        (left, "BLEU by length of the source", "words of the source", lambda rung: rung.by_length),
        (right, "The same text, read in longer pieces", "sentences read at once", lambda rung: rung.by_parts),
    )
    for axes, title, label, of in panels:
        ends: list[Label] = []
        for rung in report.rungs:
            colour, mark = _LOOKS[rung.recipe]
            found = of(rung)
            places = range(len(found))
            _band(axes, places, [figure.bleu for figure in found], colour)
            axes.plot(places, [figure.bleu.value for figure in found], color=colour, marker=mark)
            ends.append((found[-1].bleu.value, rung_of(rung.recipe).name, colour))
        found = of(report.rungs[0])
        below = "\nn = {}" if axes is left else "\n≈ {} words"
        ticks = [
            figure.label.replace("-", "\u2013") + below.format(figure.sources if axes is left else round(figure.words))
            for figure in found
        ]
        axes.set_xticks(range(len(found)), ticks, fontsize=11)
        axes.set_title(title)
        axes.set_xlabel(label)
        axes.margins(x=0.04)
        axes.set_ylim(bottom=0)
        _name_lines(axes, len(found) - 1, ends)
    left.set_ylabel("BLEU")


def _draw_curves(figure: Figure, report: LadderReport) -> None:
    axes = figure.subplots()
    ends: list[Label] = []
    learning = [rung for rung in report.rungs if rung.loss_curve]
    furthest = max((rung.loss_curve[-1][0] / 1e6 for rung in learning), default=0.0)
    for rung in learning:
        points = rung.loss_curve
        colour, mark = _LOOKS[rung.recipe]
        tokens, values = [point[0] / 1e6 for point in points], [point[1] for point in points]
        axes.plot(tokens, values, color=colour, marker=mark, markersize=5)
        if tokens[-1] < furthest:
            axes.plot([tokens[-1], furthest], [values[-1]] * 2, color=colour, linewidth=1, linestyle=":")
        ends.append((values[-1], rung_of(rung.recipe).name, colour))
    axes.set_title("Validation loss")
    axes.set_xlabel("million target tokens seen")
    axes.set_xlim(left=0)
    _name_lines(axes, furthest, ends)


def _band(axes: Axes, places: Sequence[int], found: Sequence[Estimate], colour: str) -> None:
    lows, highs = [each.low for each in found], [each.high for each in found]
    axes.fill_between(places, lows, highs, color=colour, alpha=0.16, linewidth=0)


def _name_lines(axes: Axes, right: float, ends: Sequence[Label]) -> None:
    """Write names behind the ends of lines, apart from each other where lines end close together."""
    low, high = axes.get_ylim()
    apart = (high - low) * 0.065
    heights: list[float] = []
    for height, _, _ in sorted(ends):
        heights.append(max(height, heights[-1] + apart) if heights else height)
    for (_, name, colour), height in zip(sorted(ends), heights, strict=True):
        axes.annotate(
            name,
            (right, height),
            (12, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontweight="bold",
            annotation_clip=False,
        )

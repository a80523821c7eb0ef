"""Draws soft alignments as labelled heat maps: source words along the top, target words down the side.

Does not know how the attention was got; needs the extra `pictures`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# matplotlib leaves the types of its keyword arguments open.
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from regard.client.drawing.layout import (
    END_LABEL,
    END_LABEL_SCALE,
    END_WIDTH,
    LABEL_GAP,
    MARGIN,
    SLANT,
    Block,
    Page,
    fit,
    paginate,
    row_height,
)
from regard.client.drawing.panels import Panel
from regard.client.drawing.typefaces import DOTS_PER_INCH, Typefaces

SUFFIXES = (".png", ".svg", ".pdf")

# White to dark blue in equal steps of OKLab lightness, so that equal differences of weight look equal.
_COLOURS = LinearSegmentedColormap.from_list(
    "regard", ["#ffffff", "#c6e9f5", "#94d0e9", "#67b5dc", "#4498ca", "#2b7cb3", "#1f5f97", "#1b4576", "#172d51"]
)
_INK = "#1b2733"
_QUIET = "#7b8794"
_LINES = "#e2e7ec"

_TITLE_SIZE = 17.0
_CAPTION_SIZE = 10.5
_TITLE_HEIGHT = 0.44  # inches
_CAPTION_HEIGHT = 0.24
_SCALE_HEIGHT = 0.3
_LEAST_NUMBER = 0.05  # smaller weights are told by their colour alone


def write_attention(path: Path, panels: Sequence[Panel], *, title: str, caption: str = "") -> tuple[Path, ...]:
    """Draw the panels into the file and, if they do not fit into one, into `NAME-2.SUFFIX` and so on.

    Args:
        path: ends with one of `SUFFIXES`.
        panels: what to draw; at least one.
        title: for example "English → Spanish".
        caption: a quieter line below it, for example the name of the model.

    Returns:
        the files written.

    Raises:
        ValueError: an unknown suffix, or no panels.
        OSError: the file cannot be written.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"a picture is a {', '.join(SUFFIXES)} file, not {path.name!r}")
    if not panels:
        raise ValueError("there is no sentence to draw")
    typefaces = Typefaces([title, caption, *(text for panel in panels for text in (*panel.rows, *panel.columns))])
    written: list[Path] = []
    for number, page in enumerate(paginate([fit(panel, typefaces.inches) for panel in panels]), start=1):
        target = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        _write_page(target, page, typefaces, title, caption)
        written.append(target)
    return tuple(written)


def _write_page(path: Path, page: Page, typefaces: Typefaces, title: str, caption: str) -> None:
    numbered = all(block.numbered for row in page.rows for block in row)
    head = _TITLE_HEIGHT + (_CAPTION_HEIGHT if caption else 0.0)
    width = max(page.width, typefaces.inches(title, _TITLE_SIZE, bold=True), typefaces.inches(caption, _CAPTION_SIZE))
    height = head + page.height + (0.0 if numbered else _SCALE_HEIGHT)
    # Text stays text in SVG and PDF, so that it can be found and copied.
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "regard"}
    # No date: the same attention gives the same file.
    metadata: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    suffix = path.suffix.lower()
    with rc_context(settings):
        figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN), dpi=DOTS_PER_INCH, facecolor="white")
        FigureCanvasAgg(figure)
        sheet = _Sheet(figure, typefaces)
        sheet.write(MARGIN, MARGIN + 0.14, title, _TITLE_SIZE, bold=True)
        sheet.write(MARGIN, MARGIN + 0.44, caption, _CAPTION_SIZE, colour=_QUIET)
        top = MARGIN + head
        for row in page.rows:
            left = MARGIN
            for block in row:
                sheet.heat_map(block, left, top, numbered=numbered)
                left += block.width + MARGIN
            top += row_height(row) + MARGIN
        if not numbered:
            sheet.scale(MARGIN, top - MARGIN + 0.2)
        figure.savefig(path, format=suffix.removeprefix("."), metadata=metadata.get(suffix))


class _Sheet:
    """Draws on a figure in inches from its upper left corner."""

    def __init__(self, figure: Figure, typefaces: Typefaces) -> None:
        self.figure = figure
        self.typefaces = typefaces
        self.width, self.height = (float(size) for size in figure.get_size_inches())

    def write(self, x: float, y: float, text: str, size: float, *, bold: bool = False, colour: str = _INK) -> None:
        """Write a line whose middle is at y."""
        self.figure.text(
            x / self.width,
            1 - y / self.height,
            self.typefaces.drawable(text),
            fontproperties=self.typefaces.properties(size, bold=bold),
            color=colour,
            va="center",
            parse_math=False,
        )

    def heat_map(self, block: Block, left: float, top: float, *, numbered: bool) -> None:
        """Draw a block whose upper left corner is at (left, top)."""
        panel, rows = block.panel, len(block.panel.rows)
        axes = self._axes(left + block.left, top + block.above, block.cell * block.columns, block.cell * rows)
        axes.set_xlim(0, block.columns)
        axes.set_ylim(rows, 0)
        grid: dict[str, Any] = {
            "cmap": _COLOURS,
            "vmin": 0,
            "vmax": 1,
            "edgecolors": _LINES,
            "linewidth": 0.7,
            "clip_on": False,
        }
        lines = np.arange(rows + 1)
        if panel.columns:
            axes.pcolormesh(np.arange(len(panel.columns) + 1), lines, panel.weights, **grid)
        axes.pcolormesh([block.columns - END_WIDTH, block.columns], lines, panel.end_weights[:, None], **grid)
        self._labels(axes, block)
        if numbered:
            self._numbers(axes, block)

    def scale(self, left: float, top: float) -> None:
        """Draw what the colours mean."""
        axes = self._axes(left + 0.13, top, 1.4, 0.1)
        axes.imshow(np.linspace(0, 1, 256)[None, :], cmap=_COLOURS, aspect="auto")
        self.write(left, top + 0.05, "0", 8, colour=_QUIET)
        self.write(left + 1.58, top + 0.05, "1  attention", 8, colour=_QUIET)

    def _axes(self, left: float, top: float, width: float, height: float) -> Axes:
        box = (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        axes.set_axis_off()
        return axes

    def _labels(self, axes: Axes, block: Block) -> None:
        panel, gap = block.panel, LABEL_GAP / block.cell
        plain = self.typefaces.properties(block.font_size)
        for place, text in enumerate(panel.rows):
            axes.text(
                -gap,
                place + 0.5,
                self.typefaces.drawable(text),
                fontproperties=plain,
                color=_INK,
                ha="right",
                va="center_baseline",
                parse_math=False,
            )
        # A slanted line looks as if it stood right of where it starts.
        lean = block.font_size / 72 / block.cell * 0.25
        quiet = self.typefaces.properties(block.font_size * END_LABEL_SCALE, italic=True)
        labels = [(place + 0.5, text, plain, _INK) for place, text in enumerate(panel.columns)]
        labels.append((block.columns - END_WIDTH / 2, END_LABEL, quiet, _QUIET))
        for place, text, properties, colour in labels:
            axes.text(
                place - lean,
                -gap,
                self.typefaces.drawable(text),
                fontproperties=properties,
                color=colour,
                ha="left",
                va="center",
                rotation=SLANT,
                rotation_mode="anchor",
                parse_math=False,
            )

    def _numbers(self, axes: Axes, block: Block) -> None:
        small = self.typefaces.properties(block.font_size * 0.68)
        rows, columns = np.nonzero(block.panel.weights >= _LEAST_NUMBER)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            weight = float(block.panel.weights[row, column])
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{weight:.2f}".removeprefix("0"),
                fontproperties=small,
                color="white" if weight > 0.45 else _INK,
                ha="center",
                va="center_baseline",
            )

"""Decides how large panels are and which stand together on a page; all lengths are inches.

Does not draw and does not know typefaces: the width of a text comes from a function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from regard.client.drawing.panels import Panel

# Cells between the last word and the end of sentence, and the width of its own cell.
END_GAP = 0.18
END_WIDTH = 0.55
END_LABEL = "end"
END_LABEL_SCALE = 0.85  # of the font size of the others

MARGIN = 0.3  # around a page and between blocks
LABEL_GAP = 0.1  # between labels and grid
SLANT = 45  # degrees

_LARGEST_CELL = 0.6
_SMALLEST_CELL = 0.21
_GRID = 9.5  # a grid grows to this by making more cells, then by making them smaller
_LARGEST_FONT = 14.0
_PAGE_WIDTH = 16.0  # a page is larger only if a single block is
_PAGE_HEIGHT = 12.0
_MOST_NUMBERED = 12  # rows or columns; with more, numbers would be noise

MeasureText = Callable[[str, float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A panel with the room that it takes.

    Attributes:
        panel: what to draw.
        cell: side of a cell.
        font_size: points.
        left: from the left edge to the grid; the row labels stand there.
        right: from the grid to the right edge; the last column labels lean over it.
        above: from the upper edge to the grid; the column labels stand there.
    """

    panel: Panel
    cell: float
    font_size: float
    left: float
    right: float
    above: float

    @property
    def columns(self) -> float:
        """Width of the grid in cells, the end of sentence included."""
        return len(self.panel.columns) + END_GAP + END_WIDTH

    @property
    def width(self) -> float:
        return self.left + self.cell * self.columns + self.right

    @property
    def height(self) -> float:
        return self.above + self.cell * len(self.panel.rows)

    @property
    def numbered(self) -> bool:
        """Whether the cells have room for numbers."""
        return max(len(self.panel.rows), len(self.panel.columns)) <= _MOST_NUMBERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows of blocks, top to bottom; the grids of a row begin at the same height."""

    rows: tuple[tuple[Block, ...], ...]

    @property
    def width(self) -> float:
        return max(sum(block.width for block in row) + MARGIN * (len(row) - 1) for row in self.rows)

    @property
    def height(self) -> float:
        return sum(row_height(row) for row in self.rows) + MARGIN * (len(self.rows) - 1)


def row_height(row: Sequence[Block]) -> float:
    """Return the height of blocks that stand side by side."""
    return max(block.height for block in row)


def fit(panel: Panel, measure: MeasureText) -> Block:
    """Give a panel its size; `measure` returns the width of a text at a font size in points."""
    cell = min(_LARGEST_CELL, max(_SMALLEST_CELL, _GRID / max(len(panel.rows), len(panel.columns), 1)))
    font_size = min(_LARGEST_FONT, cell * 72 * 0.6)
    line = font_size / 72
    columns = len(panel.columns)
    labels = [(place + 0.5, measure(text, font_size)) for place, text in enumerate(panel.columns)]
    labels.append((columns + END_GAP + END_WIDTH / 2, measure(END_LABEL, font_size * END_LABEL_SCALE)))
    slant = math.radians(SLANT)
    reach = max(cell * place + width * math.cos(slant) + line * 0.5 for place, width in labels)
    return Block(
        panel=panel,
        cell=cell,
        font_size=font_size,
        left=max((measure(text, font_size) for text in panel.rows), default=0.0) + LABEL_GAP,
        right=max(0.02, reach - cell * (columns + END_GAP + END_WIDTH)),
        above=max(width for _, width in labels) * math.sin(slant) + line + LABEL_GAP,
    )


def paginate(blocks: Sequence[Block]) -> list[Page]:
    """Put blocks side by side while they fit, in rows below each other while these fit, then on a new page."""
    rows: list[list[Block]] = []
    for block in blocks:
        if rows and sum(other.width + MARGIN for other in rows[-1]) + block.width <= _PAGE_WIDTH:
            rows[-1].append(block)
        else:
            rows.append([block])
    pages: list[list[tuple[Block, ...]]] = []
    used = 0.0
    for row in rows:
        above = max(block.above for block in row)
        level = tuple(replace(block, above=above) for block in row)
        if not pages or used + row_height(level) > _PAGE_HEIGHT:
            pages.append([])
            used = 0.0
        pages[-1].append(level)
        used += row_height(level) + MARGIN
    return [Page(rows=tuple(page)) for page in pages]

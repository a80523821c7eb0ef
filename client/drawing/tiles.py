"""Lays out a slide of equal tiles, as large as they can be, below a title and above a footer; all lengths are inches.

Does not draw and does not know what is on the tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

WIDTH = 40 / 3  # 16:9, as large as slides are
HEIGHT = 7.5
MARGIN = 0.4

_GAP = 0.16  # between tiles side by side
_ROW_GAP = 0.1  # between a tile and the label of the one below, at least
_LARGEST_ROW_GAP = 0.5
_LARGEST = 4.6  # of a tile: a few do not have to fill the slide
_MOST_EXTREME = 3.5  # width to height of a tile, or height to width; a picture beyond that leaves some of it empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle, from the upper left corner of the slide."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Boxes for pictures, each with a label above.

    Attributes:
        boxes: in reading order, all of one size, in the proportions of the pictures.
        room: how wide a label may be.
        label: height of a label; it ends where its box begins.
    """

    boxes: tuple[Box, ...]
    room: float
    label: float


def arrange(count: int, proportion: float, *, top: float, bottom: float) -> Tiles:
    """Place tiles so that they are as large as can be.

    Args:
        count: how many; at least 1.
        proportion: width of a picture, divided by its height.
        top: where the first labels may begin.
        bottom: where the last tiles have to end.
    """
    width, height = WIDTH - 2 * MARGIN, bottom - top
    shape = min(_MOST_EXTREME, max(1 / _MOST_EXTREME, proportion))
    side, columns = max((_side(count, columns, shape, width, height), -columns) for columns in range(1, count + 1))
    columns = -columns
    rows = math.ceil(count / columns)
    # A row that is shorter than the others by more than one tile looks unfinished.
    columns = math.ceil(count / rows)
    room, tall = side, side / shape
    label = _label(room)
    picture_width = min(room, tall * proportion)
    picture_height = picture_width / proportion
    left = (WIDTH - columns * room - (columns - 1) * _GAP) / 2
    spare = height - rows * (label + tall)
    gap = min(_LARGEST_ROW_GAP, spare / (rows + 1))
    above = top + (spare - (rows - 1) * gap) / 2
    boxes = tuple(
        Box(
            left=left + (place % columns) * (room + _GAP) + (room - picture_width) / 2,
            top=above + (place // columns) * (label + tall + gap) + label,
            width=picture_width,
            height=picture_height,
        )
        for place in range(count)
    )
    return Tiles(boxes=boxes, room=room, label=label)


def _side(count: int, columns: int, shape: float, width: float, height: float) -> float:
    """Return how wide a tile can be with so many side by side."""
    rows = math.ceil(count / columns)
    across = min(_LARGEST * max(1.0, shape) ** 0.5, (width - (columns - 1) * _GAP) / columns)
    tall = (height - (rows - 1) * _ROW_GAP) / rows - _label(across)
    return max(0.01, min(across, tall * shape))


def _label(room: float) -> float:
    """Return how much a label needs above a tile of this width."""
    return min(0.42, max(0.22, room * 0.19))

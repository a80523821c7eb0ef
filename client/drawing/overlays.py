"""Draws captions on slides: the picture alone, then once for every word with where that word looked.

Does not know how the maps were got; needs the extra `pictures`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# matplotlib leaves the types of its keyword arguments open.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image, ImageOps

from regard.client.captions import Caption
from regard.client.drawing.overlay_files import SUFFIXES
from regard.client.drawing.panels import label
from regard.client.drawing.tiles import HEIGHT, MARGIN, WIDTH, Box, Tiles, arrange
from regard.client.drawing.typefaces import DOTS_PER_INCH, Typefaces
from regard.client.drawing.upright import upright

_INK = "#1b2733"
_QUIET = "#6b7783"
_EDGE = "#d5dbe1"

# Black over red and orange to pale yellow in equal steps of OKLab lightness, so that equal differences of weight look
# equal.
_COLOURS = LinearSegmentedColormap.from_list(
    "regard-heat", ["#000000", "#130100", "#3a1101", "#632c00", "#8b4d03", "#b37205", "#d79a04", "#f5c834", "#fff8bc"]
)
# The picture shows through as light and shade of the colours, and in grey where it was not looked at. Its lightest
# part there (_DIM) is darker than its darkest where most was looked at (_LIT).
_DIM = 0.55
_LIT = 0.8
_DARKEST = 0.25  # of the grey picture, so that shadows can be told from each other

_EVEN = 4.0  # a map without any cell this many times an even look does not use the full scale

_TITLE_SIZES = (26.0, 22.0, 18.0, 15.0)  # points; the first at which the title fits
_FOOTER_SIZE = 11.0
_TITLE_LINES = 2
_FOOTER_HEIGHT = 0.34
_LARGEST_LABEL = 19.0
_SMALLEST_LABEL = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """What is drawn where, in inches from the upper left corner.

    Attributes:
        title: lines.
        title_size: points.
        tiles: the first is that of the picture alone.
        scales: for every word the weight that has the brightest colour.
    """

    title: tuple[str, ...]
    title_size: float
    tiles: Tiles
    scales: tuple[float, ...]


def write_overlay(path: Path, image: bytes, caption: Caption, *, name: str = "") -> None:
    """Draw a caption over its picture, on a slide of 16:9; of several hypotheses the best.

    Args:
        path: ends with one of `SUFFIXES`; what is there is overwritten.
        image: the bytes of the picture's file.
        caption: the answer to that picture, with maps.
        name: for the footer, for example that of the file.

    Raises:
        ValueError: an unknown suffix, a caption without maps, or a picture that cannot be read.
        OSError: the file cannot be written.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"a picture is a {', '.join(SUFFIXES)} file, not {path.name!r}")
    maps = caption.maps
    if maps is None:
        raise ValueError("the caption has no maps: it was asked for without attention")
    picture = upright(image, most=round(WIDTH * DOTS_PER_INCH))
    model = caption.model
    facts = [name, f"{model.name} {model.version}".strip()]
    words = [label(word) for word in caption.words]
    typefaces = Typefaces([caption.text, *facts, *words])
    slide = slide_of(caption.text, picture.width / picture.height, maps, typefaces)
    # Text stays text in SVG and PDF, so that it can be found and copied.
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "regard"}
    # No date: the same caption gives the same file.
    metadata: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context(settings):
        sheet = _Sheet(typefaces)
        sheet.title(slide)
        for place, box in enumerate(slide.tiles.boxes):
            base = picture.resize(_pixels(box), Image.Resampling.LANCZOS)
            if place == 0:
                sheet.picture(box, np.asarray(base))
            else:
                scale = slide.scales[place - 1]
                sheet.picture(box, overlaid(base, maps[place - 1], scale))
                sheet.label(box, slide.tiles, words[place - 1], f"{scale:.2g}")
        sheet.footer([fact for fact in facts if fact], maps)
        suffix = path.suffix.lower()
        sheet.figure.savefig(path, format=suffix.removeprefix("."), metadata=metadata.get(suffix))


def slide_of(text: str, proportion: float, maps: NDArray[np.float32], typefaces: Typefaces) -> Slide:
    """Lay a slide out for a caption, a picture of this proportion (width to height) and maps [word, row, column]."""
    title, size = _fit_title(text, typefaces)
    top = MARGIN + len(title) * size / 72 * 1.25 + 0.08
    cells = max(1, maps.shape[1] * maps.shape[2])
    return Slide(
        title=title,
        title_size=size,
        tiles=arrange(1 + len(maps), proportion, top=top, bottom=HEIGHT - MARGIN - _FOOTER_HEIGHT),
        scales=tuple(max(float(each.max(initial=0.0)), min(1.0, _EVEN / cells)) for each in maps),
    )


def overlaid(picture: Image.Image, weights: NDArray[np.float32], scale: float) -> NDArray[np.uint8]:
    """Return the picture in grey under the colours of a map that covers all of it, uint8 [height, width, 3].

    Args:
        picture: upright.
        weights: float32 [row, column]; cell (row, column) is that part of the picture. Between the centres of cells
            they are interpolated.
        scale: the weight that has the brightest colour.
    """
    # Pillow's resampling puts the centres of cells where they belong: cell i of n at (i + 0.5) / n of the side.
    smooth = Image.fromarray(weights.astype(np.float32)).resize(picture.size, Image.Resampling.BICUBIC)
    share = np.clip(np.asarray(smooth) / scale, 0, 1)[..., None]
    colours = np.asarray(_COLOURS(share[..., 0]), dtype=np.float32)[..., :3]
    grey = np.asarray(ImageOps.autocontrast(picture.convert("L"), cutoff=1), dtype=np.float32)[..., None] / 255
    grey = _DARKEST + (1 - _DARKEST) * grey
    # The grey fades more slowly than the colour comes, whose first steps are nearly black: more is always lighter.
    mixed = (1 - share**2) * _DIM * grey + colours * (_LIT + (1 - _LIT) * grey)
    return (np.clip(mixed, 0, 1) * 255).round().astype(np.uint8)


def _fit_title(text: str, typefaces: Typefaces) -> tuple[tuple[str, ...], float]:
    lines: list[str] = []
    for size in _TITLE_SIZES:
        lines = _wrap(text, size, typefaces)
        if len(lines) <= _TITLE_LINES:
            return tuple(lines), size
    return (*lines[: _TITLE_LINES - 1], f"{lines[_TITLE_LINES - 1]} …"), _TITLE_SIZES[-1]


def _wrap(text: str, size: float, typefaces: Typefaces) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and typefaces.inches(longer, size, bold=True) <= WIDTH - 2 * MARGIN:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _pixels(box: Box) -> tuple[int, int]:
    return max(1, round(box.width * DOTS_PER_INCH)), max(1, round(box.height * DOTS_PER_INCH))


class _Sheet:
    """Draws on a figure in inches from its upper left corner."""

    def __init__(self, typefaces: Typefaces) -> None:
        self.figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DOTS_PER_INCH, facecolor="white")
        FigureCanvasAgg(self.figure)
        self.typefaces = typefaces

    def title(self, slide: Slide) -> None:
        """Write the caption."""
        step = slide.title_size / 72 * 1.25
        for place, line in enumerate(slide.title):
            self._write(MARGIN, MARGIN + (place + 0.5) * step, line, slide.title_size, bold=True)

    def picture(self, box: Box, pixels: NDArray[np.uint8]) -> None:
        """Draw pixels so that they fill a box."""
        axes = self.figure.add_axes(
            (box.left / WIDTH, 1 - (box.top + box.height) / HEIGHT, box.width / WIDTH, box.height / HEIGHT)
        )
        axes.imshow(pixels, aspect="auto", interpolation="antialiased")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=_EDGE, linewidth=0.6)

    def label(self, box: Box, tiles: Tiles, word: str, number: str) -> None:
        """Write a word above its box, and quieter a number right of it."""
        size = min(_LARGEST_LABEL, tiles.label * 72 * 0.66)
        both = f"{word}  {number}"
        while size > _SMALLEST_LABEL and self.typefaces.inches(both, size, bold=True) > tiles.room:
            size *= 0.95
        left = box.left + (box.width - tiles.room) / 2
        self._write(left, box.top - tiles.label * 0.42, word, size, bold=True)
        self._write(left + tiles.room, box.top - tiles.label * 0.42, number, size * 0.7, colour=_QUIET, ha="right")

    def footer(self, facts: Sequence[str], maps: NDArray[np.float32]) -> None:
        """Write what the colours mean."""
        middle = HEIGHT - MARGIN - 0.05
        rows, columns = maps.shape[1:]
        box = Box(left=MARGIN, top=middle - 0.06, width=1.5, height=0.12)
        grey = Image.new("L", _pixels(box), 128).convert("RGB")
        ramp = np.linspace(0, 1, grey.width, dtype=np.float32)[None, :]
        self.picture(box, overlaid(grey, ramp, 1.0))
        even = (
            f"; an even look at {rows} x {columns} cells would be {1 / (rows * columns):.3f}" if rows * columns else ""
        )
        self._write(
            MARGIN + 1.62,
            middle,
            f"attention, from 0 to the number above each picture{even}",
            _FOOTER_SIZE,
            colour=_QUIET,
        )
        self._write(WIDTH - MARGIN, middle, " · ".join(facts), _FOOTER_SIZE, colour=_QUIET, ha="right")

    def _write(
        self, x: float, y: float, text: str, size: float, *, bold: bool = False, colour: str = _INK, ha: str = "left"
    ) -> None:
        """Write a line whose middle is at y."""
        self.figure.text(
            x / WIDTH,
            1 - y / HEIGHT,
            self.typefaces.drawable(text),
            fontproperties=self.typefaces.properties(size, bold=bold),
            color=colour,
            ha=ha,
            va="center_baseline",
            parse_math=False,
        )

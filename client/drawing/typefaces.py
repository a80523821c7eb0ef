"""Finds typefaces for every character that is to be drawn, so that no box is drawn in place of a letter.

Does not know what the words mean; needs matplotlib.
"""

# pyright: reportUnknownVariableType=false
# matplotlib leaves the parameter of os.PathLike open.
from __future__ import annotations

from collections.abc import Iterable

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

# Comes with matplotlib, so pictures look alike everywhere; has Latin with all accents, Greek and Cyrillic.
_MAIN = "DejaVu Sans"

DOTS_PER_INCH = 200


class Typefaces:
    """The main typeface, and those installed ones that have what it lacks."""

    def __init__(self, texts: Iterable[str]) -> None:
        lacking = {ord(character) for text in texts for character in text} - _characters(findfont(_MAIN))
        families = [_MAIN]
        for font in fontManager.ttflist if lacking else ():
            # The typeface of last resort draws the same box for every character of a script.
            if not font.name.startswith("Last Resort") and (found := lacking & _characters(font.fname)):
                families.append(font.name)
                lacking -= found
        self._families = families
        self._lacking = lacking
        self._renderer = FigureCanvasAgg(Figure(dpi=DOTS_PER_INCH)).get_renderer()

    def drawable(self, text: str) -> str:
        """Return the text with U+FFFD for what no typeface has."""
        return "".join("\ufffd" if ord(character) in self._lacking else character for character in text)

    def properties(self, size: float, *, bold: bool = False, italic: bool = False) -> FontProperties:
        """Return the typefaces at a size in points."""
        return FontProperties(
            family=self._families,
            size=size,
            weight="bold" if bold else "normal",
            style="italic" if italic else "normal",
        )

    def inches(self, text: str, size: float, *, bold: bool = False) -> float:
        """Return the width of a line of text at a size in points."""
        properties = self.properties(size, bold=bold)
        return self._renderer.get_text_width_height_descent(self.drawable(text), properties, False)[0] / DOTS_PER_INCH


def _characters(path: str) -> set[int]:
    try:
        return set(get_font(path).get_charmap())
    except (OSError, RuntimeError):
        # Bitmap and colour fonts cannot be drawn by matplotlib.
        return set()

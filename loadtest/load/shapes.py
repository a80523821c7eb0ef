"""Paints simple things in a colour: a square, a disc, a ball, a car, a shirt, a dog, made of a few shapes each.

It does not know where in a picture they belong, nor what for.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

COLOURS: Mapping[str, Colour] = MappingProxyType(
    {
        "red": (214, 32, 36),
        "blue": (36, 72, 200),
        "yellow": (245, 212, 40),
        "green": (40, 150, 60),
        "orange": (240, 130, 30),
        "pink": (240, 130, 180),
        "brown": (120, 76, 42),
        "black": (22, 22, 24),
        "white": (248, 248, 246),
    }
)
# Painted larger and made smaller, so that edges are soft; what is large has edges that are fine already.
_FINER = 4
_LARGE = 1200


class _Part(NamedTuple):
    """A shape within the unit square, and its tone: the colour itself, lighter, darker, or a colour of its own."""

    shape: str
    points: tuple[float, ...]
    tone: str | Colour = "plain"


_GLASS: Colour = (196, 216, 228)
_RUBBER: Colour = (28, 28, 30)
_PARTS: Mapping[str, tuple[_Part, ...]] = MappingProxyType(
    {
        "square": (_Part("rectangle", (0.05, 0.05, 0.95, 0.95)),),
        "disc": (_Part("ellipse", (0.03, 0.03, 0.97, 0.97)),),
        "ball": (
            _Part("ellipse", (0.03, 0.03, 0.97, 0.97), "dark"),
            _Part("ellipse", (0.05, 0.03, 0.91, 0.89)),
            _Part("ellipse", (0.22, 0.14, 0.52, 0.42), "light"),
            _Part("ellipse", (0.28, 0.19, 0.40, 0.30), (255, 255, 255)),
        ),
        "car": (
            _Part("polygon", (0.20, 0.48, 0.32, 0.26, 0.66, 0.26, 0.82, 0.48)),
            _Part("polygon", (0.02, 0.72, 0.03, 0.52, 0.20, 0.46, 0.84, 0.46, 0.97, 0.54, 0.98, 0.72)),
            _Part("polygon", (0.26, 0.46, 0.35, 0.30, 0.48, 0.30, 0.48, 0.46), _GLASS),
            _Part("polygon", (0.52, 0.46, 0.52, 0.30, 0.64, 0.30, 0.75, 0.46), _GLASS),
            _Part("rectangle", (0.02, 0.66, 0.98, 0.72), "dark"),
            _Part("ellipse", (0.13, 0.60, 0.33, 0.80), _RUBBER),
            _Part("ellipse", (0.67, 0.60, 0.87, 0.80), _RUBBER),
            _Part("ellipse", (0.19, 0.66, 0.27, 0.74), (190, 190, 194)),
            _Part("ellipse", (0.73, 0.66, 0.81, 0.74), (190, 190, 194)),
            _Part("ellipse", (0.92, 0.55, 0.97, 0.61), (255, 244, 190)),
        ),
        "shirt": (
            _Part("polygon", (0.02, 0.28, 0.36, 0.08, 0.36, 0.42, 0.14, 0.48)),
            _Part("polygon", (0.98, 0.28, 0.64, 0.08, 0.64, 0.42, 0.86, 0.48)),
            _Part("rectangle", (0.25, 0.08, 0.75, 0.95)),
            _Part("ellipse", (0.37, 0.01, 0.63, 0.18), "dark"),
            _Part("polygon", (0.25, 0.90, 0.75, 0.90, 0.75, 0.95, 0.25, 0.95), "dark"),
        ),
        "dog": (
            _Part("polygon", (0.08, 0.46, 0.01, 0.24, 0.06, 0.22, 0.18, 0.44), "dark"),
            _Part("polygon", (0.16, 0.60, 0.26, 0.60, 0.25, 0.96, 0.17, 0.96), "dark"),
            _Part("polygon", (0.56, 0.60, 0.66, 0.60, 0.65, 0.96, 0.57, 0.96), "dark"),
            _Part("ellipse", (0.06, 0.38, 0.74, 0.74)),
            _Part("polygon", (0.08, 0.58, 0.20, 0.66, 0.16, 0.96, 0.08, 0.96)),
            _Part("polygon", (0.62, 0.62, 0.74, 0.56, 0.74, 0.96, 0.66, 0.96)),
            _Part("polygon", (0.54, 0.52, 0.62, 0.22, 0.82, 0.26, 0.74, 0.60)),
            _Part("ellipse", (0.58, 0.12, 0.86, 0.42)),
            _Part("polygon", (0.76, 0.22, 0.98, 0.28, 0.98, 0.38, 0.78, 0.41)),
            _Part("polygon", (0.60, 0.14, 0.72, 0.16, 0.66, 0.44, 0.57, 0.38), "dark"),
            _Part("ellipse", (0.93, 0.26, 0.99, 0.32), _RUBBER),
            _Part("ellipse", (0.755, 0.20, 0.795, 0.24), _RUBBER),
        ),
    }
)
KINDS = tuple(_PARTS)


def paint(picture: Image.Image, kind: str, colour: str, *, left: int, top: int, side: int) -> NDArray[np.bool_]:
    """Paint a thing into a square of an RGB picture; return where it is, bool [height, width]."""
    wide = side * max(1, min(_FINER, _LARGE // side))
    tile = Image.new("RGBA", (wide, wide))
    drawing = ImageDraw.Draw(tile)
    for part in _PARTS[kind]:
        points = [value * (wide - 1) for value in part.points]
        fill = _tone(COLOURS[colour], part.tone)
        if part.shape == "ellipse":
            drawing.ellipse(points, fill=fill)
        elif part.shape == "rectangle":
            drawing.rectangle(points, fill=fill)
        else:
            drawing.polygon(points, fill=fill)
    tile = tile.resize((side, side), Image.Resampling.BOX)
    picture.paste(tile, (left, top), tile)
    where = np.zeros((picture.height, picture.width), dtype=np.bool_)
    where[top : top + side, left : left + side] = np.asarray(tile.getchannel("A")) >= 128
    return where


def _tone(colour: Colour, tone: str | Colour) -> Colour:
    if not isinstance(tone, str):
        return tone
    target, share = {"plain": (0, 0.0), "light": (255, 0.45), "dark": (0, 0.28)}[tone]
    red, green, blue = (round(value + (target - value) * share) for value in colour)
    return red, green, blue

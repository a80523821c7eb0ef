"""Makes up pictures of one coloured square on a plain ground, with captions that name its colour and place."""

import io
import random
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from PIL import Image

from regard.datasets.flickr8k import Described
from regard.training.data.caption_data import CaptionCorpus
from regard.training.models.vision import Pixels

SIDE = 24  # pixels of a picture
CELLS = 3  # places in a row, and rows
COLOURS: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {"red": (230, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230), "yellow": (240, 220, 30)}
)
_ROWS = ("top", "middle", "bottom")
_COLUMNS = ("left", "centre", "right")


def draw_square(colour: str, row: int, column: int, *, ground: int) -> Pixels:
    """Return uint8 [SIDE, SIDE, 3]: a square of a colour that fills one cell, on grey."""
    pixels = np.full((SIDE, SIDE, 3), ground, dtype=np.uint8)
    size = SIDE // CELLS
    pixels[row * size : (row + 1) * size, column * size : (column + 1) * size] = COLOURS[colour]
    return pixels


def describe_square(colour: str, row: int, column: int) -> str:
    """Return the caption of a picture."""
    return f"A {colour} square at the {_ROWS[row]} {_COLUMNS[column]} ."


def make_squares(*, pictures: int = 640, seed: int = 1) -> CaptionCorpus:
    """Return pictures drawn at random, an eighth of them for validation and an eighth for tests."""
    rng = random.Random(seed)  # noqa: S311  made-up data, not secrets
    encoded: dict[str, bytes] = {}
    described: list[Described] = []
    for number in range(pictures):
        colour, row, column = rng.choice(list(COLOURS)), rng.randrange(CELLS), rng.randrange(CELLS)
        name = f"square-{seed}-{number}"
        encoded[name] = as_png(draw_square(colour, row, column, ground=rng.randrange(150, 230)))
        described.append(Described(name, (describe_square(colour, row, column),)))
    few = pictures // 8
    return CaptionCorpus(
        train=described[2 * few :],
        valid=described[:few],
        test=described[few : 2 * few],
        load=lambda names: (encoded[name] for name in names),
        origin="made up: one square on a plain ground",
    )


def as_png(pixels: Pixels) -> bytes:
    """Encode pixels uint8 [height, width, 3]."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()

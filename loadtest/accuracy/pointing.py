"""Asks whether the map of a word that names a thing peaks on that thing: pictures of one thing, names, peaks, chance.

It does not know who captions the pictures.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.loadtest.load.shapes import COLOURS, KINDS, paint
from regard.scoring.words import words as cut

SIDE = 224  # pixels of a picture
SMALLEST, LARGEST = 0.25, 0.45  # of the picture's side, that of the thing

NOUNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "square": ("square", "box", "block", "cube"),
        "disc": ("disc", "disk", "circle", "ball", "frisbee"),
        "ball": ("ball", "balls", "balloon", "basketball", "football", "circle"),
        "car": ("car", "cars", "vehicle", "truck", "van", "automobile"),
        "shirt": ("shirt", "shirts", "t-shirt", "tshirt", "jersey", "top"),
        "dog": ("dog", "dogs", "puppy", "animal"),
    }
)
# What one would call the ground, so that nothing is drawn on its own colour.
GROUNDS: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {"grey": (205, 206, 208), "green": (96, 152, 66), "blue": (150, 192, 232), "white": (252, 252, 252)}
    | {"sand": (222, 204, 158), "black": (44, 46, 52)}
)
# Things that have colours of their own; all else comes in any.
NATURAL: Mapping[str, tuple[str, ...]] = MappingProxyType({"dog": ("brown", "black", "white")})
DEFINITION = (
    "A word names the thing if it is its colour or a noun for it ("
    + "; ".join(f"{kind}: {', '.join(nouns)}" for kind, nouns in NOUNS.items())
    + "). The peak of its map, the cell with the most weight, is on the thing if any part of the thing lies in that "
    "cell. Chance is the share of all cells of which that is so. A word that a caption repeats counts once."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneThing:
    """A picture of one coloured thing on a plain ground.

    Attributes:
        name: says what is to be seen.
        kind: of thing.
        colour: its name.
        content: the bytes of a PNG file.
        where: the pixels of the thing, bool [height, width].
    """

    name: str
    kind: str
    colour: str
    content: bytes
    where: NDArray[np.bool_]


class Pointing(NamedTuple):
    """Words of one sort, and how many of their maps peak on the thing."""

    words: int
    hits: int
    chance: float  # 0 to 1, the mean over the words

    @property
    def rate(self) -> float | None:
        """Share of the words, 0 to 1; None without words."""
        return self.hits / self.words if self.words else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointings:
    """What came of all pictures.

    Attributes:
        pictures: drawn.
        captioned: those that got a caption.
        named: captions with at least one word for the thing.
        colours: colour words for the thing.
        nouns: nouns for it.
        others: all other words of the captions that have a word for it.
    """

    pictures: int
    captioned: int
    named: int
    colours: Pointing
    nouns: Pointing
    others: Pointing

    @property
    def all(self) -> Pointing:
        """All words for the thing."""
        return _joined((self.colours, self.nouns))


def draw_things(count: int, *, seed: int) -> list[OneThing]:
    """Draw things of all kinds in turn, of any colour, size and place; the same seed draws the same."""
    random = Random(f"things/{seed}")  # noqa: S311 - reproducible, not secret
    return [_draw(KINDS[number % len(KINDS)], number, random) for number in range(count)]


def _draw(kind: str, number: int, random: Random) -> OneThing:
    colour = random.choice(NATURAL.get(kind, tuple(COLOURS)))
    ground = random.choice([name for name in GROUNDS if name != colour])
    side = round(SIDE * random.uniform(SMALLEST, LARGEST))
    left, top = random.randrange(SIDE - side), random.randrange(SIDE - side)
    picture = Image.new("RGB", (SIDE, SIDE), GROUNDS[ground])
    where = paint(picture, kind, colour, left=left, top=top, side=side)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    name = f"{number:04d}-{colour}-{kind}-on-{ground}"
    return OneThing(name=name, kind=kind, colour=colour, content=buffer.getvalue(), where=where)


def cells_of(where: NDArray[np.bool_], rows: int, columns: int) -> NDArray[np.bool_]:
    """The cells of a map in which a thing lies, bool [row, column], from its pixels [height, width]."""
    height, width = where.shape
    y, x = np.nonzero(where)
    cells = np.zeros((rows, columns), dtype=np.bool_)
    cells[y * rows // height, x * columns // width] = True
    return cells


def point(thing: OneThing, words: Sequence[str], maps: NDArray[np.float32]) -> dict[str, Pointing]:
    """Of one caption: words that are `colours` or `nouns` of the thing, and `others`, with maps [word, row, column]."""
    cells = cells_of(thing.where, maps.shape[1], maps.shape[2])
    found: dict[str, list[bool]] = {"colours": [], "nouns": [], "others": []}
    seen: set[str] = set()
    for word, weights in zip(words, maps, strict=True):
        parts = set(cut(word))
        if not parts or parts <= seen:
            continue
        seen |= parts
        sort = "colours" if thing.colour in parts else "nouns" if parts & set(NOUNS[thing.kind]) else "others"
        found[sort].append(bool(cells.flat[int(weights.argmax())]))
    chance = float(cells.mean())
    return {sort: Pointing(len(hits), sum(hits), chance) for sort, hits in found.items()}


def gather(pictures: int, captions: Iterable[Mapping[str, Pointing]]) -> Pointings:
    """Put together what `point` found of each caption."""
    every = list(captions)
    named = [found for found in every if found["colours"].words or found["nouns"].words]
    return Pointings(
        pictures=pictures,
        captioned=len(every),
        named=len(named),
        colours=_joined(found["colours"] for found in named),
        nouns=_joined(found["nouns"] for found in named),
        others=_joined(found["others"] for found in named),
    )


def _joined(parts: Iterable[Pointing]) -> Pointing:
    every = list(parts)
    words = sum(part.words for part in every)
    chance = sum(part.words * part.chance for part in every) / words if words else 0.0
    return Pointing(words, sum(part.hits for part in every), chance)

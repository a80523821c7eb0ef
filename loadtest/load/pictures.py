"""Finds the pictures of a load: those of a folder, or drawn ones of some usual sizes, as the files that are sent.

It does not know requests.
"""

import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType

import numpy as np
from PIL import Image, ImageChops

from regard.client.batching.image_files import find_images
from regard.loadtest.load.shapes import COLOURS, KINDS, paint
from regard.loadtest.load.traffic import SIZES

# Width, height and how many of them are drawn; a photo has 12 million pixels.
DRAWN: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {"small": (224, 224, 8), "medium": (640, 480, 8), "large": (1600, 1200, 4), "photo": (4000, 3000, 2)}
)
# Of a folder with more pictures some are taken: all of them are held in memory, for every class.
MOST = 64
_GRAIN = 256  # pixels after which the grain repeats
_NO_GRAIN = 128  # what leaves a pixel as it is
_QUALITY = 88


class Pictures:
    """The pictures of a load.

    Args:
        folder: of picture files; empty for drawn ones.
        seed: of what is drawn, or taken where there are too many.
    """

    def __init__(self, folder: str, *, seed: int) -> None:
        self._folder = folder
        self._seed = seed

    def of_size(self, size: str) -> Sequence[bytes]:
        """The bytes of picture files. Raises ValueError if there are none of that size, OSError for unreadable ones."""
        if self._folder:
            return self._found(size)
        names = tuple(DRAWN)[:3] if size == "any" else (size,)
        return [
            draw_scene(width, height, seed=f"{self._seed}/{number}")
            for width, height, count in map(DRAWN.__getitem__, names)
            for number in range(count)
        ]

    def _found(self, size: str) -> list[bytes]:
        if not Path(self._folder).is_dir():
            raise ValueError(f"{self._folder} is no folder of pictures")
        found = find_images([self._folder], recursive=False)
        if found.problems:
            raise ValueError(found.problems[0])
        files = [file for file in found.files if size == "any" or _fits(file.name, size)]
        if not files:
            low, high = SIZES[size]
            raise ValueError(
                f"no picture in {self._folder} has {low:g} to {high:g} million pixels, as size {size!r} asks"
            )
        random = Random(f"pictures/{self._seed}")  # noqa: S311 - reproducible, not secret
        return [file.read() for file in (files if len(files) <= MOST else random.sample(files, MOST))]


# A plan makes its payloads again whenever it is asked for them, and photographs take a while.
@functools.lru_cache(maxsize=sum(count for *_, count in DRAWN.values()))
def draw_scene(width: int, height: int, *, seed: str) -> bytes:
    """A JPEG file of some things on a ground under a sky, with grain, so that it has about a photograph's bytes."""
    random = Random(f"scene/{width}x{height}/{seed}")  # noqa: S311 - reproducible, not secret
    horizon = random.uniform(0.35, 0.6)
    picture = _landscape(width, height, horizon, random)
    for _ in range(random.randint(2, 4)):
        side = round(min(width, height) * random.uniform(0.2, 0.4))
        left, top = random.randrange(width - side), round((height - side) * random.uniform(horizon, 1))
        paint(picture, random.choice(KINDS), random.choice(tuple(COLOURS)), left=left, top=top, side=side)
    grain = np.random.default_rng(random.randrange(2**32)).normal(_NO_GRAIN, 9, (_GRAIN, _GRAIN)).astype(np.uint8)
    whole = np.tile(grain, (height // _GRAIN + 1, width // _GRAIN + 1))[:height, :width]
    picture = ImageChops.add(picture, Image.fromarray(whole).convert("RGB"), offset=-_NO_GRAIN)
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=_QUALITY)
    return buffer.getvalue()


def _landscape(width: int, height: int, horizon: float, random: Random) -> Image.Image:
    sky = np.array((150, 190, 230)) + random.randint(-20, 20)
    ground = np.array(random.choice(((96, 150, 66), (206, 186, 140), (128, 130, 134), (230, 234, 240))))
    down = np.linspace(0, 1, height)[:, np.newaxis]
    shade = np.where(down < horizon, sky + 40 * down, ground - 50 * (down - horizon))
    column = np.clip(shade, 0, 255).astype(np.uint8)[:, np.newaxis, :]
    return Image.fromarray(np.repeat(column, width, axis=1))


def _fits(name: str, size: str) -> bool:
    low, high = SIZES[size]
    try:
        with Image.open(name) as picture:
            return low < picture.width * picture.height / 1e6 <= high
    except (OSError, Image.DecompressionBombError):
        return False

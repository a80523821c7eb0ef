"""Turns the bytes of a picture's file into the pixels that a model reads: the server's half of the preprocessing.

It does not know requests, threads or models beyond what the bundle says of pictures. docs/graph-contract.md states the
steps; whatever trains a model follows the same statement, and a test holds both to the same pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from regard.server.bundle.image_input import ImageInput
from regard.server.errors import InvalidRequest, UnknownColours
from regard.server.pictures.image_colours import to_srgb
from regard.server.pictures.image_header import Header, damaged, draft_request, opened
from regard.server.request import Pixels

_ORIENTATION = 0x0112
_SIDEWAYS = 5
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """A picture, ready for a model.

    Attributes:
        pixels: uint8 [height, width, 3] of the model's size, red, green and blue.
        format: of the file, as Pillow names it.
        width, height: of the upright original.
        orientation: EXIF orientation that was followed, 1 to 8.
    """

    pixels: Pixels
    format: str
    width: int
    height: int
    orientation: int


def read_picture(data: bytes, header: Header, image: ImageInput, *, field: str) -> Picture:
    """Decode a file and make it ready.

    Args:
        data: the file.
        header: of it; see `regard.server.pictures.image_header.read_header`.
        image: what to make of it.
        field: what errors call it.

    Raises:
        InvalidRequest: the file is damaged or cut, or its numbers are no colours; the same every time.
    """
    # Pillow follows the orientation of TIFF files by itself, and says their upright size.
    turned = header.format == "TIFF"
    try:
        if header.format == "PNG":
            # Decoding passes over wrong checksums and gives wrong pixels.
            opened(data, field).verify()
        with opened(data, field) as picture:
            orientation = _orientation(picture)
            if header.format == "JPEG":
                side = draft_request(image)
                picture.draft(picture.mode, (side, side))
            picture.load()
            ready = to_srgb(picture, image.ground)
        if not turned and orientation in _TURNS:
            ready = ready.transpose(_TURNS[orientation])
        ready = ready.resize((image.width, image.height), _FILTERS[image.resampling])
    except (InvalidRequest, MemoryError):
        raise
    except UnknownColours as error:
        raise InvalidRequest(field, str(error)) from error
    except Exception as error:  # Readers of hostile bytes raise whatever comes up.
        raise damaged(field, error) from error
    sideways = not turned and orientation >= _SIDEWAYS
    return Picture(
        pixels=np.array(ready, dtype=np.uint8),
        format=header.format,
        width=header.height if sideways else header.width,
        height=header.width if sideways else header.height,
        orientation=orientation,
    )


def _orientation(picture: Image.Image) -> int:
    """EXIF orientation, 1 where the file has none or one that is broken: the picture may be sound all the same."""
    try:
        found = picture.getexif().get(_ORIENTATION, 1)
    except MemoryError:
        raise
    except Exception:  # Metadata of hostile files raises whatever comes up.
        return 1
    return found if isinstance(found, int) and 1 <= found <= max(_TURNS) else 1

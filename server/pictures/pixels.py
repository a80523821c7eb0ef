"""Decodes a picture file into the pixels that a model reads: upright, sRGB, resized.

This is the server's half of the preprocessing. docs/graph-contract.md specifies the steps, the training side implements
the same specification, and a test holds both to the same pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from regard.contract.image_input import ImageInput
from regard.server.errors import InvalidRequest, UnknownColours
from regard.server.pictures.image_colours import to_srgb
from regard.server.pictures.image_header import Header, damaged, draft_request, opened
from regard.server.pictures.orientation import UPRIGHT, exif_orientation, rotate_upright, upright_size
from regard.server.request import Pixels

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """A picture that is ready for a model.

    Attributes:
        pixels: uint8 [height, width, 3] in RGB, of the size that the model takes.
        format: of the file, as Pillow names it.
        width, height: of the upright original.
        orientation: EXIF orientation that was undone, 1 to 8.
    """

    pixels: Pixels
    format: str
    width: int
    height: int
    orientation: int


def read_picture(data: bytes, header: Header, image: ImageInput, *, field: str) -> Picture:
    """Decode a file, rotate it upright, convert it to sRGB and resize it.

    Args:
        data: the file.
        header: as `regard.server.pictures.image_header.read_header` returned it.
        image: what the model takes.
        field: name of the picture in errors.

    Raises:
        InvalidRequest: the file is damaged or truncated, or its values are not valid colours.
    """
    try:
        if header.format == "PNG":
            # Decoding alone ignores wrong checksums and yields wrong pixels.
            opened(data, field).verify()
        with opened(data, field) as picture:
            orientation = exif_orientation(picture)
            if header.format == "JPEG":
                side = draft_request(image)
                picture.draft(picture.mode, (side, side))
            picture.load()
            ready = to_srgb(picture, image.ground)
        # Pillow has rotated a TIFF file by now, and the size in its header is the upright one.
        pending = UPRIGHT if header.format == "TIFF" else orientation
        ready = rotate_upright(ready, pending)
        ready = ready.resize((image.width, image.height), _FILTERS[image.resampling])
    except (InvalidRequest, MemoryError):
        raise
    except UnknownColours as error:
        raise InvalidRequest(field, str(error)) from error
    except Exception as error:  # Pillow raises anything at all on hostile bytes.
        raise damaged(field, error) from error
    width, height = upright_size(header.width, header.height, pending)
    return Picture(
        pixels=np.array(ready, dtype=np.uint8),
        format=header.format,
        width=width,
        height=height,
        orientation=orientation,
    )

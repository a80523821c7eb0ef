"""Reads what the header of a picture's file says, and refuses what must not be decoded.

It does not decode: a file that would unfold to gigabytes costs no more here than a small one.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image, TiffImagePlugin, UnidentifiedImageError

from regard.server.bundle.image_input import ImageInput
from regard.server.errors import InvalidRequest
from regard.server.pictures.image_formats import READ, READ_IN_WORDS, holds_whole_jpeg, name_of
from regard.server.settings import Limits

# A taller or wider picture takes more memory to resize than to hold.
LONGEST_SIDE = 65_535

# Bytes that Pillow takes for a pixel. All other modes take 4.
_PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
# Colours, composition and turning hold up to two copies and a mask beside the decoded picture.
_COPIES_BYTES = 9
# Buffers of decoders, for a pixel.
_DECODER_BYTES = {"WEBP": 16, "TIFF": 8}
_COEFFICIENT_BYTES = 2
_TILE_WIDTH, _TILE_LENGTH = 322, 323
_LONGEST_REASON = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What is known of a picture before it is decoded.

    Attributes:
        format: as Pillow names it, one of `regard.server.pictures.image_formats.READ`.
        width, height: as the file says, not yet upright.
        decode_bytes: most memory that making it ready will take.
    """

    format: str
    width: int
    height: int
    decode_bytes: int


def read_header(data: bytes, image: ImageInput, *, limits: Limits, field: str) -> Header:
    """Read the header of a file.

    Args:
        data: the file.
        image: what it will be made into.
        limits: of files and pixels.
        field: what errors call it.

    Raises:
        InvalidRequest: it is empty, too large, of a kind that is not read, has too many pixels, or is damaged so that
            not even its header can be read; says so in one sentence.
    """
    if not data:
        raise InvalidRequest(field, "is empty")
    if len(data) > limits.max_image_bytes:
        raise InvalidRequest(field, f"has {len(data)} bytes, and the limit is {limits.max_image_bytes}")
    try:
        picture = opened(data, field)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        # Far beyond the limit, which lies below those of the reader.
        raise InvalidRequest(field, f"has more pixels than the limit of {limits.max_image_pixels}") from None
    with picture:
        kind = format_of(picture)
        width, height = picture.size
        if width < 1 or height < 1:
            raise InvalidRequest(field, f"has {width} x {height} pixels, and needs at least 1 x 1")
        if width * height > limits.max_image_pixels:
            raise _too_large(field, width, height, limits)
        if max(width, height) > LONGEST_SIDE:
            raise InvalidRequest(field, f"has {width} x {height} pixels, and the limit of a side is {LONGEST_SIDE}")
        if isinstance(picture, TiffImagePlugin.TiffImageFile):
            _check_tiles(picture, limits, field)
        held = draft_size(width, height, image) if kind == "JPEG" else (width, height)
        memory = held[0] * held[1] * (_PIXEL_BYTES.get(picture.mode, 4) + _COPIES_BYTES + _DECODER_BYTES.get(kind, 0))
        # Resizing goes side by side, so one of its sides is still that of the picture.
        memory += 4 * max(image.width, image.height) * max(held)
        if kind == "JPEG" and _holds_whole(data, field):
            memory += width * height * len(picture.getbands()) * _COEFFICIENT_BYTES
        return Header(format=kind, width=width, height=height, decode_bytes=memory)


def opened(data: bytes, field: str) -> Image.Image:
    """Open a file by one of the readers that are allowed, and read no more of it than its header.

    Raises:
        InvalidRequest: none of them takes it.
        DecompressionBombError, DecompressionBombWarning: it has far too many pixels.
    """
    try:
        return Image.open(io.BytesIO(data), formats=READ)
    except MemoryError:
        raise
    except UnidentifiedImageError:
        name = name_of(data)
        what = "is no picture of a kind that is known here" if name is None else f"is {name}"
        raise InvalidRequest(field, f"{what}; what is read is {READ_IN_WORDS}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise
    except Exception as error:  # Readers of hostile bytes raise whatever comes up.
        raise damaged(field, error) from error


def damaged(field: str, error: Exception) -> InvalidRequest:
    """Say that a file is damaged, with what its reader says if that is a plain sentence."""
    reason = str(error)
    plain = reason.isascii() and reason.isprintable() and len(reason) <= _LONGEST_REASON and "object at" not in reason
    return InvalidRequest(field, f"is a damaged picture: {reason}" if reason and plain else "is a damaged picture")


def format_of(picture: Image.Image) -> str:
    """Name of the format; files of cameras that hold further pictures behind the first are JPEG all the same."""
    return "JPEG" if picture.format in (None, "MPO") else picture.format


def draft_size(width: int, height: int, image: ImageInput) -> tuple[int, int]:
    """Size at which a JPEG is decoded: a half, a quarter or an eighth, so that both sides stay twice as long as needed.

    It is what Pillow's `draft` does when asked for `draft_request(image)`.
    """
    scale = min(width, height) // draft_request(image)
    divisor = next(divisor for divisor in (8, 4, 2, 1) if scale >= divisor or divisor == 1)
    return -(-width // divisor), -(-height // divisor)


def draft_request(image: ImageInput) -> int:
    """Fewest pixels of a side that a JPEG is decoded at, if it has them."""
    return 2 * max(image.width, image.height)


def _too_large(field: str, width: int, height: int, limits: Limits) -> InvalidRequest:
    return InvalidRequest(
        field,
        f"has {width} x {height} = {width * height} pixels, and the limit is {limits.max_image_pixels}",
    )


def _check_tiles(picture: TiffImagePlugin.TiffImageFile, limits: Limits, field: str) -> None:
    """Refuse tiles that are larger than any picture: a small one may claim to be cut from them."""
    width, length = (picture.tag_v2.get(tag, 1) for tag in (_TILE_WIDTH, _TILE_LENGTH))
    if not (isinstance(width, int) and isinstance(length, int) and 0 < width * length <= limits.max_image_pixels):
        raise InvalidRequest(
            field, f"has tiles of more than {limits.max_image_pixels} pixels, the limit of a whole picture"
        )


def _holds_whole(data: bytes, field: str) -> bool:
    try:
        return holds_whole_jpeg(data)
    except ValueError as error:
        raise damaged(field, error) from None

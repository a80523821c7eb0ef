"""Reads the header of a picture file and refuses files that must not be decoded.

Nothing is decoded here, so a decompression bomb costs no more than a small file.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image, TiffImagePlugin, UnidentifiedImageError

from regard.contract.image_input import ImageInput
from regard.server.errors import InvalidRequest
from regard.server.pictures.file_structure import TooManyParts, check_structure
from regard.server.pictures.image_formats import READ, READ_IN_WORDS, holds_whole_jpeg, name_of
from regard.server.settings import Limits

# A taller or wider picture takes more memory to resize than to hold.
LONGEST_SIDE = 65_535

# Bytes per pixel in Pillow. All other modes take 4.
_PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
# Colour conversion, composition and rotation hold up to two copies and a mask beside the decoded picture.
_COPIES_BYTES = 9
# Bytes per pixel in the buffers of decoders.
_DECODER_BYTES = {"WEBP": 16, "TIFF": 8}
_COEFFICIENT_BYTES = 2
_TILE_WIDTH, _TILE_LENGTH = 322, 323
_LONGEST_REASON = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the header of a file says, before anything is decoded.

    Attributes:
        format: as Pillow names it, one of `regard.server.pictures.image_formats.READ`.
        width, height: as stored, not yet rotated upright.
        decode_bytes: upper bound of the memory that decoding and preparing it takes.
    """

    format: str
    width: int
    height: int
    decode_bytes: int


def read_header(data: bytes, image: ImageInput, *, limits: Limits, field: str) -> Header:
    """Read the header of a file.

    Args:
        data: the file.
        image: what the model takes.
        limits: of bytes and pixels.
        field: name of the picture in errors.

    Raises:
        InvalidRequest: it is empty, too large, in an unsupported format, has too many pixels, or its header is damaged.
    """
    if not data:
        raise InvalidRequest(field, "is empty")
    if len(data) > limits.max_image_bytes:
        raise InvalidRequest(field, f"has {len(data)} bytes; the limit is {limits.max_image_bytes}")
    try:
        check_structure(data)
    except TooManyParts as error:
        raise InvalidRequest(field, str(error)) from error
    try:
        picture = opened(data, field)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        # Pillow's own limits lie above ours.
        raise InvalidRequest(field, f"has more pixels than the limit of {limits.max_image_pixels}") from None
    with picture:
        kind = format_of(picture)
        width, height = picture.size
        if width < 1 or height < 1:
            raise InvalidRequest(field, f"must have at least 1 x 1 pixels, got {width} x {height}")
        if width * height > limits.max_image_pixels:
            raise _too_large(field, width, height, limits)
        if max(width, height) > LONGEST_SIDE:
            raise InvalidRequest(field, f"has {width} x {height} pixels; the limit for each side is {LONGEST_SIDE}")
        if isinstance(picture, TiffImagePlugin.TiffImageFile):
            _check_tiles(picture, limits, field)
        held = draft_size(width, height, image) if kind == "JPEG" else (width, height)
        memory = held[0] * held[1] * (_PIXEL_BYTES.get(picture.mode, 4) + _COPIES_BYTES + _DECODER_BYTES.get(kind, 0))
        # Resizing works on one axis at a time, so the intermediate picture still has one original side.
        memory += 4 * max(image.width, image.height) * max(held)
        if kind == "JPEG" and _holds_whole(data, field):
            memory += width * height * len(picture.getbands()) * _COEFFICIENT_BYTES
        return Header(format=kind, width=width, height=height, decode_bytes=memory)


def opened(data: bytes, field: str) -> Image.Image:
    """Open a file with one of the allowed decoders, which reads no more than its header.

    Raises:
        InvalidRequest: it is none of their formats.
        DecompressionBombError, DecompressionBombWarning: it has far too many pixels.
    """
    try:
        return Image.open(io.BytesIO(data), formats=READ)
    except MemoryError:
        raise
    except UnidentifiedImageError:
        name = name_of(data)
        what = "not a supported image" if name is None else f"{name} is not supported"
        raise InvalidRequest(field, f"{what}; expected {READ_IN_WORDS}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise
    except Exception as error:  # Pillow raises anything at all on hostile bytes.
        raise damaged(field, error) from error


def damaged(field: str, error: Exception) -> InvalidRequest:
    """Return the error for a damaged file, with the decoder's own message if that is a plain sentence."""
    reason = str(error)
    plain = reason.isascii() and reason.isprintable() and len(reason) <= _LONGEST_REASON and "object at" not in reason
    return InvalidRequest(field, f"damaged image file: {reason}" if reason and plain else "damaged image file")


def format_of(picture: Image.Image) -> str:
    """Name of the format; a camera's multi-picture file (MPO) counts as JPEG."""
    return "JPEG" if picture.format in (None, "MPO") else picture.format


def draft_size(width: int, height: int, image: ImageInput) -> tuple[int, int]:
    """Size at which a JPEG is decoded: a half, a quarter or an eighth, so that both sides stay twice as long as needed.

    It is what Pillow's `draft` does when asked for `draft_request(image)`.
    """
    scale = min(width, height) // draft_request(image)
    divisor = next(divisor for divisor in (8, 4, 2, 1) if scale >= divisor or divisor == 1)
    return -(-width // divisor), -(-height // divisor)


def draft_request(image: ImageInput) -> int:
    """Pixels of the shorter side at which a JPEG is decoded at least, if it has as many."""
    return 2 * max(image.width, image.height)


def _too_large(field: str, width: int, height: int, limits: Limits) -> InvalidRequest:
    return InvalidRequest(
        field,
        f"has {width} x {height} = {width * height} pixels; the limit is {limits.max_image_pixels}",
    )


def _check_tiles(picture: TiffImagePlugin.TiffImageFile, limits: Limits, field: str) -> None:
    """Refuse tiles that are larger than the largest picture: even a small TIFF file may declare them."""
    width, length = (picture.tag_v2.get(tag, 1) for tag in (_TILE_WIDTH, _TILE_LENGTH))
    if not (isinstance(width, int) and isinstance(length, int) and 0 < width * length <= limits.max_image_pixels):
        raise InvalidRequest(
            field, f"has tiles of more than {limits.max_image_pixels} pixels, the limit for a whole picture"
        )


def _holds_whole(data: bytes, field: str) -> bool:
    try:
        return holds_whole_jpeg(data)
    except ValueError as error:
        raise damaged(field, error) from None

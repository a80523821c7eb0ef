"""Rotates or mirrors a decoded picture upright, as the EXIF orientation tag of its file asks.

TIFF files are not handled here: Pillow itself applies their orientation while it decodes.
"""

from __future__ import annotations

from PIL import Image

_TAG = 0x0112
UPRIGHT = 1
# From here on the stored picture lies on its side, so that width and height are exchanged.
_FIRST_SIDEWAYS = 5
_TRANSPOSITIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def exif_orientation(picture: Image.Image) -> int:
    """EXIF orientation of an open file, 1 to 8; 1 where it has none or an invalid one, as its pixels may be sound."""
    try:
        found = picture.getexif().get(_TAG, UPRIGHT)
    except MemoryError:
        raise
    except Exception:  # Pillow raises anything at all on hostile metadata.
        return UPRIGHT
    return found if isinstance(found, int) and UPRIGHT <= found <= max(_TRANSPOSITIONS) else UPRIGHT


def rotate_upright(picture: Image.Image, orientation: int) -> Image.Image:
    """Undo an EXIF orientation from 1 to 8."""
    transposition = _TRANSPOSITIONS.get(orientation)
    return picture if transposition is None else picture.transpose(transposition)


def upright_size(width: int, height: int, orientation: int) -> tuple[int, int]:
    """Width and height after `rotate_upright`."""
    return (height, width) if orientation >= _FIRST_SIDEWAYS else (width, height)

"""Reads a picture as a person sees it: upright, opaque, in 8 bits a channel, no larger than it is to be drawn.

Does not know what is done with it; needs the extra `pictures`.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

# Those that a server reads: no other part of Pillow ever sees the bytes.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")

_MAX_PIXELS = 100_000_000


class UnreadableImage(ValueError):
    """The bytes are no picture that can be drawn."""


def upright(data: bytes, *, most: int) -> Image.Image:
    """Return the picture of a file as RGB, on white where it is transparent, its longer side at most `most` pixels.

    Raises:
        UnreadableImage: it cannot be read, or is too large.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise UnreadableImage(f"{image.width} x {image.height} pixels are too many to draw")
            image.draft("RGB", (most, most))  # lets a large JPEG be read at a fraction of its size
            image.load()
            turned = ImageOps.exif_transpose(image)
            small = _opaque(turned)
    except UnreadableImage:
        raise
    except UnidentifiedImageError:  # its text is an address in memory
        raise UnreadableImage(f"cannot be read: no {', '.join(FORMATS)}") from None
    except Exception as error:  # Pillow raises whatever the part that reads a format happens to
        raise UnreadableImage(f"cannot be read: {error}") from error
    small.thumbnail((most, most), Image.Resampling.LANCZOS)
    return small


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        values = np.nan_to_num(np.asarray(image, dtype=np.float64))
        # Whole numbers have 16 bits; fractions say by their size what they count to.
        tops = (1.0, 255.0, 65535.0) if image.mode == "F" else (65535.0,)
        largest = float(values.max(initial=0.0))
        top = next((each for each in tops if largest <= each), largest)
        return Image.fromarray((np.clip(values / top, 0, 1) * 255).round().astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        above = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")
    return image.convert("RGB")

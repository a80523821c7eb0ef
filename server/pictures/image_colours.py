"""Converts a decoded picture of any mode to 8-bit sRGB: ink colours, profiles, 16 bits, transparency."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

from regard.server.errors import UnknownColours

_DEEP_GREY = ("I;16", "I;16L", "I;16B", "I;16N")
# Of modes with a profile, the colour space that it must be for.
_PROFILED = {"L": "GRAY", "RGB": "RGB ", "RGBA": "RGB ", "CMYK": "CMYK"}
# Its types are incomplete.
_management: Any = ImageCms
_LARGEST_PROFILE = 4 * 1024 * 1024

Ground = tuple[int, int, int]


def to_srgb(picture: Image.Image, ground: Ground) -> Image.Image:
    """Return the picture in mode RGB.

    Transparency of any kind is put on the ground. Grey of 16 bits is divided by 257. Whole numbers of 32 bits and real
    numbers are taken as 0 to 255 if none is larger, else as 0 to 65535; real numbers of which none is larger than 1 as
    0 to 1. A profile that is sound, fits the mode and is not sRGB itself is followed.

    Args:
        picture: decoded.
        ground: red, green and blue under transparent pixels.

    Raises:
        UnknownColours: a number is not finite or out of these ranges, or the mode has no meaning here.
    """
    if picture.mode in _DEEP_GREY or picture.mode in ("I", "F"):
        return _from_numbers(picture, ground)
    profile = picture.info.get("icc_profile")
    if picture.has_transparency_data:
        clear = _follow(_converted(picture, "RGBA"), profile)
        solid = Image.new("RGB", clear.size, ground)
        solid.paste(clear, mask=clear.getchannel("A"))
        return solid
    if picture.mode in ("1", "P", "PA"):
        picture = _converted(picture, "RGB")
    return _converted(_follow(picture, profile), "RGB")


def _converted(picture: Image.Image, mode: str) -> Image.Image:
    """The picture in another mode; itself if that is its own."""
    if picture.mode == mode:
        return picture
    try:
        return picture.convert(mode)
    except (ValueError, OSError, ImageCms.PyCMSError) as error:
        raise UnknownColours(f"colour mode {picture.mode} is not supported") from error


def _from_numbers(picture: Image.Image, ground: Ground) -> Image.Image:
    numbers: NDArray[Any] = np.asarray(picture)
    if picture.mode in _DEEP_GREY:
        grey = ((numbers.astype(np.uint32) + 128) // 257).astype(np.uint8)
    else:
        grey = _scaled(numbers)
    solid = Image.fromarray(grey).convert("RGB")
    clear = picture.info.get("transparency")
    if isinstance(clear, int):
        solid.paste(ground, mask=Image.fromarray(np.where(numbers == clear, 255, 0).astype(np.uint8)))
    return solid


def _scaled(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    least, most = float(numbers.min()), float(numbers.max())
    # NaN fails this comparison, so it is rejected too.
    if not (least >= 0 and most <= 65_535):
        raise UnknownColours(f"grey values range from {least:g} to {most:g}; expected 0 to 1, 0 to 255 or 0 to 65535")
    real = numbers.dtype.kind == "f"
    factor = 255.0 if real and most <= 1 else 1.0 if most <= 255 else 1 / 257
    return np.rint(numbers * np.float32(factor)).astype(np.uint8)


def _follow(picture: Image.Image, profile: object) -> Image.Image:
    """Convert colours to sRGB by an ICC profile; without a sound one they are taken for sRGB already."""
    space = _PROFILED.get(picture.mode)
    if space is None or not isinstance(profile, bytes) or not 0 < len(profile) <= _LARGEST_PROFILE:
        return picture
    try:
        source = _management.getOpenProfile(io.BytesIO(profile))
        if source.profile.xcolor_space != space or "srgb" in (source.profile.profile_description or "").lower():
            return picture
        target = _management.createProfile("sRGB")
        converted: Image.Image | None = _management.profileToProfile(
            picture, source, target, outputMode="RGBA" if picture.mode == "RGBA" else "RGB"
        )
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError, ImportError):
        return picture
    return picture if converted is None else converted

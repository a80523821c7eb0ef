"""Files of pictures as callers send them: one scene in every kind of file, and files that are wrong on purpose.

They know no test. The scene is four quarters, red, green, blue and yellow, with a white stripe that shows which way is
up; everything else follows from it.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

WIDTH, HEIGHT = 240, 160
RED, GREEN, BLUE, YELLOW = (220, 40, 40), (40, 180, 60), (40, 70, 220), (240, 220, 40)
QUARTERS = ("red", "green", "blue", "yellow")
# Its types are incomplete.
_management: Any = ImageCms
_ORIENTATION = 0x0112
# What undoes each orientation, so that a reader who follows it sees the scene.
_UNDO = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def scene(width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """The scene, in mode RGB."""
    picture = Image.new("RGB", (width, height), RED)
    picture.paste(GREEN, (width // 2, 0, width, height // 2))
    picture.paste(BLUE, (0, height // 2, width // 2, height))
    picture.paste(YELLOW, (width // 2, height // 2, width, height))
    picture.paste((255, 255, 255), (width * 7 // 16, height // 8, width * 9 // 16, height * 3 // 8))
    return picture


def grey() -> Image.Image:
    """The scene, in mode L."""
    return scene().convert("L")


def with_red_square(width: int, height: int, *, corner: str) -> Image.Image:
    """A grey picture with a red square in one corner: `upper left`, `upper right`, `lower left` or `lower right`."""
    side = min(width, height) // 3
    left = 0 if "left" in corner else width - side
    upper = 0 if "upper" in corner else height - side
    picture = Image.new("RGB", (width, height), (128, 128, 128))
    picture.paste((255, 0, 0), (left, upper, left + side, upper + side))
    return picture


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    """A file of a picture."""
    stream = io.BytesIO()
    picture.save(stream, format=kind, **options)
    return stream.getvalue()


def jpeg(picture: Image.Image | None = None, **options: Any) -> bytes:
    """A JPEG file of a picture, or of the scene."""
    return saved(scene() if picture is None else picture, "JPEG", **{"quality": 95, "subsampling": 0} | options)


def png(picture: Image.Image | None = None, **options: Any) -> bytes:
    """A PNG file of a picture, or of the scene."""
    return saved(scene() if picture is None else picture, "PNG", **options)


def rotated(orientation: int, kind: str, picture: Image.Image | None = None) -> bytes:
    """A file whose pixels lie as a camera that was held that way would write them, and that says so."""
    upright = scene() if picture is None else picture
    undo = _UNDO[orientation]
    exif = Image.Exif()
    exif[_ORIENTATION] = orientation
    options: dict[str, Any] = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    return saved(upright if undo is None else upright.transpose(undo), kind, exif=exif, **options)


def cmyk_jpeg(*, marked: bool) -> bytes:
    """Ink colours in a JPEG file, with or without the marker of the program that set the convention to invert them."""
    data = jpeg(scene().convert("CMYK"))
    if marked:
        return data
    start = data.index(b"\xff\xee")
    return data[:start] + data[start + 2 + int.from_bytes(data[start + 2 : start + 4], "big") :]


def deep_png(colours: NDArray[np.uint16]) -> bytes:
    """A PNG file of 16 bits a channel: [height, width] or [height, width, 3]."""
    kind = 2 if colours.ndim == 3 else 0
    lines = [b"\0" + line.astype(">u2").tobytes() for line in colours]
    header = struct.pack(">IIBBBBB", colours.shape[1], colours.shape[0], 16, kind, 0, 0, 0)
    return png_of(header, zlib.compress(b"".join(lines)))


def png_of(header: bytes, body: bytes) -> bytes:
    """A PNG file of a header chunk and compressed lines."""
    chunks = ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


def bomb(side: int) -> bytes:
    """A small PNG file of very many black pixels, one bit each."""
    packer = zlib.compressobj(9)
    line = bytes(1 + side // 8)
    body = b"".join(packer.compress(line) for _ in range(side)) + packer.flush()
    return png_of(struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0), body)


def hiding(noise: int) -> Image.Image:
    """The scene whose left half is invisible, with colours in it that depend on `noise` and that nobody sees."""
    colours = np.array(scene().convert("RGBA"))
    hidden = np.random.default_rng(noise).integers(0, 256, (HEIGHT, WIDTH // 2, 3), dtype=np.uint8)
    colours[:, : WIDTH // 2, :3] = hidden if noise else 0
    colours[:, : WIDTH // 2, 3] = 0
    return Image.fromarray(colours)


def animated_gif(frames: int) -> bytes:
    """The scene first, then other pictures."""
    others = [Image.new("RGB", (WIDTH, HEIGHT), (number % 256, 0, 0)) for number in range(1, frames)]
    return saved(scene(), "GIF", save_all=True, append_images=others, duration=20)


def transparent_gif() -> bytes:
    """The scene in a palette, of which the colour of the first quarter is transparent."""
    paletted = scene().quantize(16, dither=Image.Dither.NONE)
    return saved(paletted, "GIF", transparency=paletted.getpixel((0, 0)))


def lab_tiff() -> bytes:
    """The scene in the colour space LAB."""
    made: Image.Image = _management.profileToProfile(
        scene(), _management.createProfile("sRGB"), _management.createProfile("LAB"), outputMode="LAB"
    )
    return saved(made, "TIFF", icc_profile=None)


def swapped_profile() -> bytes:
    """A colour profile in which red and green have changed places."""
    profile: bytes = _management.ImageCmsProfile(_management.createProfile("sRGB")).tobytes()
    # Under another name, as sRGB itself is not followed.
    renamed = profile.replace("sRGB".encode("utf-16-be"), "swap".encode("utf-16-be"))
    assert renamed != profile
    swapped = renamed.replace(b"rXYZ", b"tmp_").replace(b"gXYZ", b"rXYZ").replace(b"tmp_", b"gXYZ")
    assert swapped != renamed
    return swapped


def tiled_tiff(side: int) -> bytes:
    """A small TIFF file that says that it is cut from tiles of that side."""
    data = bytearray(saved(scene(), "TIFF"))
    start = int.from_bytes(data[4:8], "little")
    # Strips become tiles: their offsets, sizes and the rows of one; the planes' order gives way to the length.
    renamed = {273: 324, 279: 325, 278: 322, 284: 323}
    for entry in range(start + 2, start + 2 + 12 * int.from_bytes(data[start : start + 2], "little"), 12):
        tag = int.from_bytes(data[entry : entry + 2], "little")
        if tag in renamed:
            data[entry : entry + 2] = renamed[tag].to_bytes(2, "little")
            if renamed[tag] in (322, 323):
                data[entry + 2 : entry + 12] = struct.pack("<HII", 4, 1, side)
    return bytes(data)


def all_alike() -> dict[str, bytes]:
    """Files of the scene that any reader must see as the same picture, but for what lossy files lose."""
    deep = np.asarray(scene()).astype(np.uint16) * 257
    indexed = scene().quantize(16, dither=Image.Dither.NONE)
    return {
        "JPEG": jpeg(),
        "progressive JPEG": jpeg(progressive=True),
        "CMYK JPEG with the Adobe marker": cmyk_jpeg(marked=True),
        "CMYK JPEG without it": cmyk_jpeg(marked=False),
        "PNG": png(),
        "PNG of 16 bits a channel": deep_png(deep),
        "PNG with a palette": png(indexed),
        "PNG with alpha, all opaque": png(scene().convert("RGBA")),
        "WebP": saved(scene(), "WEBP", lossless=True),
        "lossy WebP": saved(scene(), "WEBP", quality=95),
        "GIF": saved(indexed, "GIF"),
        "GIF of several frames": animated_gif(5),
        "BMP": saved(scene(), "BMP"),
        "TIFF": saved(scene(), "TIFF"),
        "compressed TIFF": saved(scene(), "TIFF", compression="tiff_lzw"),
        "TIFF in LAB": lab_tiff(),
        **{f"JPEG, orientation {number}": rotated(number, "JPEG") for number in range(1, 9)},
        **{f"PNG, orientation {number}": rotated(number, "PNG") for number in range(1, 9)},
        **{f"TIFF, orientation {number}": rotated(number, "TIFF") for number in (3, 6)},
    }


def all_damaged() -> dict[str, bytes]:
    """Files that begin as pictures do and are none, or not whole."""
    large = jpeg(scene(1200, 800))
    whole = png()
    spoiled = bytearray(whole)
    spoiled[whole.index(b"IDAT") + 20] ^= 1
    return {
        "JPEG cut in the middle": large[: len(large) // 2],
        "JPEG without its last 2 bytes": large[:-2],
        "JPEG of a header only": large[: large.index(b"\xff\xda") + 20],
        "JPEG magic, then noise": b"\xff\xd8\xff\xe0" + np.random.default_rng(0).bytes(3000),
        "PNG cut in the middle": whole[: len(whole) // 2],
        "PNG with a wrong checksum": bytes(spoiled),
        "GIF cut in the middle": animated_gif(1)[:200],
        "WebP cut in the middle": saved(scene(), "WEBP", lossless=True)[:80],
        "BMP cut in the middle": saved(scene(), "BMP")[:1000],
        "TIFF cut in the middle": saved(scene(), "TIFF")[:1000],
    }


def none_at_all() -> dict[str, tuple[bytes, str]]:
    """Files that are not pictures or in unsupported formats, and what the refusal of each must say."""
    entity = b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/hostname">]><svg>&x;</svg>'
    return {
        "nothing": (b"", "is empty"),
        "the first bytes of a JPEG": (b"\xff\xd8\xff", "not a supported image"),
        "a text": (b"this is no picture", "not a supported image"),
        "a data URI": (b"data:image/png;base64,iVBORw0KGgo=", "data URI"),
        "an error page": (b"<!DOCTYPE html><html><body>404</body></html>", "HTML"),
        "SVG": (b'<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>', "SVG"),
        "SVG with an entity": (entity, "SVG"),
        "HEIC": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(60), "HEIC"),
        "AVIF": (saved(scene(), "AVIF"), "AVIF"),
        "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "PostScript"),
        "an icon": (saved(scene(32, 32), "ICO"), "icon"),
        "JPEG 2000": (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40), "JPEG 2000"),
    }

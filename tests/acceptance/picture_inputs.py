"""The pictures of the cases: one scene in every kind of file, files that are wrong on purpose, and files that are none.

The scene is four quarters, red, green, blue and yellow, with a white arrow that points up; 240 x 160 pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageCms, ImageDraw
from tests.server.picture_files import bomb, deep_png, rotated, saved

WIDTH, HEIGHT = 240, 160
# Pillow's types of this module are incomplete.
_management: Any = ImageCms


def arrow_scene(width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """The scene, in mode RGB."""
    picture = Image.new("RGB", (width, height), (220, 30, 30))
    picture.paste((30, 160, 60), (width // 2, 0, width, height // 2))
    picture.paste((30, 60, 200), (0, height // 2, width // 2, height))
    picture.paste((240, 210, 40), (width // 2, height // 2, width, height))
    arrow = [(width // 2, height // 8), (width * 2 // 5, height // 3), (width * 3 // 5, height // 3)]
    ImageDraw.Draw(picture).polygon(arrow, fill="white")
    return picture


def picture_inputs() -> dict[str, bytes]:
    """All files by name."""
    scene = arrow_scene()
    return {
        "REF.png": _png(scene),
        "REF.jpg": _jpeg(scene),
        **_kinds_of_files(scene),
        **_hidden_colours(scene),
        **_animations(scene),
        **{f"I08_exif_orientation_{number}.jpg": rotated(number, "JPEG", scene) for number in (3, 5, 6, 8)},
        "I08_exif_orientation_6.png": rotated(6, "PNG", scene),
        **_damaged(scene),
        "I11_bomb_13300x13300_1bit.png": bomb(13_300),
        "I11_bomb_20000x20000_1bit.png": bomb(20_000),
        "I13_1x1.png": _png(scene.crop((0, 0, 1, 1))),
        "I13_1x1.gif": saved(Image.new("P", (1, 1)), "GIF"),
        "I13_2x2.jpg": _jpeg(scene.crop((0, 0, 2, 2))),
        "I14_10000x10.png": _png(scene.resize((10_000, 10))),
        "I14_10x10000.jpg": _jpeg(scene.resize((10, 10_000))),
        "I14_4000x1.png": _png(scene.resize((4000, 1))),
        "I15_png_named.jpg": _png(scene),
        **_no_pictures(scene),
    }


def _kinds_of_files(scene: Image.Image) -> dict[str, bytes]:
    ink = saved(scene.convert("CMYK"), "JPEG", quality=95, subsampling=0)
    grey = scene.convert("L")
    deep_grey = np.asarray(grey).astype(np.uint16) * 257
    ramp = np.tile(np.arange(256, dtype=np.uint16) * 257, (64, 1))
    indexed = scene.quantize(16, dither=Image.Dither.NONE)
    lab: Image.Image = _management.profileToProfile(
        scene, _management.createProfile("sRGB"), _management.createProfile("LAB"), outputMode="LAB"
    )
    return {
        "I01_cmyk_adobe.jpg": ink,
        "I01_cmyk_no_app14.jpg": _without_adobe_marker(ink),
        "I02_rgb16.png": deep_png(np.asarray(scene).astype(np.uint16) * 257),
        "I02_gray16.png": deep_png(deep_grey),
        "I02_gray16_be.tif": saved(Image.frombytes("I;16B", grey.size, deep_grey.astype(">u2").tobytes()), "TIFF"),
        "I02_gray16_ramp.png": deep_png(ramp),
        "I03_bilevel_1.png": _png(scene.convert("1")),
        "I03_bmp.bmp": saved(scene, "BMP"),
        "I03_float32_F.tif": saved(grey.convert("F"), "TIFF"),
        "I03_gray_L.jpg": _jpeg(grey),
        "I03_gray_alpha_LA.png": _png(scene.convert("LA")),
        "I03_lab.tif": saved(lab, "TIFF"),
        "I03_lossy.webp": saved(scene, "WEBP", quality=90),
        "I03_palette_P.png": _png(indexed),
        "I03_progressive.jpg": _jpeg(scene, progressive=True),
        "I03_rgb.tif": saved(scene, "TIFF"),
    }


def _hidden_colours(scene: Image.Image) -> dict[str, bytes]:
    """All but a rectangle in the middle is transparent; what colours lie there nobody sees."""
    left, upper, right, lower = WIDTH // 4, HEIGHT // 4, WIDTH * 3 // 4, HEIGHT * 3 // 4
    black = np.zeros((HEIGHT, WIDTH, 4), dtype=np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, black.shape, dtype=np.uint8)
    noise[..., 3] = 0
    for colours in (black, noise):
        colours[upper:lower, left:right] = np.asarray(scene.convert("RGBA"))[upper:lower, left:right]
    return {
        "I04_rgba_hidden_black.png": _png(Image.fromarray(black)),
        "I04_rgba_hidden_noise.png": _png(Image.fromarray(noise)),
        "I04_rgba.webp": saved(Image.fromarray(black), "WEBP", lossless=True),
    }


def _animations(scene: Image.Image) -> dict[str, bytes]:
    """A black dot that wanders over the scene."""

    def frame(number: int) -> Image.Image:
        made = scene.copy()
        at = number % (WIDTH - 30)
        ImageDraw.Draw(made).ellipse((at, 60, at + 30, 90), fill="black")
        return made

    def animated(frames: int, duration: int) -> bytes:
        others = [frame(number) for number in range(1, frames)]
        return saved(frame(0), "GIF", save_all=True, append_images=others, duration=duration, loop=0)

    paletted = scene.quantize(16, dither=Image.Dither.NONE)
    return {
        "I06_animated.gif": animated(6, 80),
        "I06_animated_500_frames.gif": animated(500, 20),
        "I06_palette_transparency.gif": saved(paletted, "GIF", transparency=paletted.getpixel((0, 0))),
    }


def _damaged(scene: Image.Image) -> dict[str, bytes]:
    large, whole = _jpeg(arrow_scene(1200, 800)), _png(scene)
    data = whole.index(b"IDAT")
    length = int.from_bytes(whole[data - 4 : data], "big")
    wrong_sum = bytearray(whole)
    wrong_sum[data + 4 + length] ^= 0xFF
    return {
        "I10_corrupt_crc.png": bytes(wrong_sum),
        "I10_header_only.jpg": large[: large.index(b"\xff\xda") + 20],
        "I10_truncated_2_bytes.jpg": large[:-2],
        "I10_truncated_half.jpg": large[: len(large) // 2],
        "I10_truncated_half.png": whole[: len(whole) // 2],
        "I15_jpeg_magic_then_garbage.jpg": b"\xff\xd8\xff\xe0" + np.random.default_rng(0).bytes(3000),
    }


def _no_pictures(scene: Image.Image) -> dict[str, bytes]:
    return {
        "I15_zero_bytes.jpg": b"",
        "I15_text_named.jpg": b"This is not a picture.\n",
        "I15_html_error_page.png": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
        "I15_data_uri.txt": b"data:image/png;base64,iVBORw0KGgo=",
        "I16_sample.svg": (
            b'<svg xmlns="http://www.w3.org/2000/svg" width="240" height="160">'
            b'<rect width="120" height="80" fill="red"/></svg>'
        ),
        "I16_entity.svg": (
            b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
            b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><text>&x;</text></svg>'
        ),
        "I16_header_only.heic": b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + bytes(64),
        "I16_sample.avif": saved(scene, "AVIF"),
    }


def _png(picture: Image.Image) -> bytes:
    return saved(picture, "PNG")


def _jpeg(picture: Image.Image, **options: Any) -> bytes:
    return saved(picture, "JPEG", quality=95, **options)


def _without_adobe_marker(data: bytes) -> bytes:
    start = data.index(b"\xff\xee")
    return data[:start] + data[start + 2 + int.from_bytes(data[start + 2 : start + 4], "big") :]

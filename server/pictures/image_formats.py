"""Tells which kind of file some bytes are, for those that are read and those that are asked for and not read.

It does not know pixels, limits or requests. What a file is called or said to be does not count: its content does.
"""

from __future__ import annotations

import re

# As Pillow names them. Nothing else ever sees the bytes of a caller: no format here reaches an external program.
READ = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
READ_IN_WORDS = "JPEG, PNG, WebP, GIF (its first frame), BMP and TIFF"

_BEGINNING = 512
_BRANDS = {
    b"avif": "AVIF",
    b"avis": "AVIF",
    b"heic": "HEIC",
    b"heix": "HEIC",
    b"hevc": "HEIC",
    b"heim": "HEIC",
    b"heis": "HEIC",
    b"mif1": "HEIF",
    b"msf1": "HEIF",
}
_SIGNATURES = (
    (b"%PDF", "PDF"),
    (b"%!PS", "PostScript"),
    (b"\xc5\xd0\xd3\xc6", "PostScript"),
    (b"8BPS", "Photoshop"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x00\x00\x00\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\x00\x00\x00\x0cJXL ", "JPEG XL"),
    (b"\xff\x0a", "JPEG XL"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip"),
    (b"data:", "a data URI; send the bytes that it encodes"),
)
_MARKUP = (
    (re.compile(rb"<svg[\s>]", re.IGNORECASE), "SVG"),
    (re.compile(rb"<(!doctype\s+)?html", re.IGNORECASE), "HTML"),
)


def name_of(data: bytes) -> str | None:
    """Return what bytes are that no reader here takes, for a message; None if that cannot be told."""
    beginning = data[:_BEGINNING]
    if beginning[4:8] == b"ftyp":
        return _BRANDS.get(beginning[8:12], "a video or a picture of another kind")
    for signature, name in _SIGNATURES:
        if beginning.startswith(signature):
            return name
    return next((name for pattern, name in _MARKUP if pattern.search(beginning)), None)


def holds_whole_jpeg(data: bytes) -> bool:
    """Whether decoding a JPEG keeps the coefficients of all of it in memory: it is progressive, or of several scans.

    Raises:
        ValueError: there is no frame and no scan where they must be.
    """
    position, components, progressive = 2, 0, False
    while True:
        position = data.find(b"\xff", position)
        if position < 0 or position + 10 > len(data):
            raise ValueError("no picture data in it")
        marker = data[position + 1]
        if marker in _LONE_MARKERS:
            position += 1 if marker == _FILL else 2
            continue
        if marker in _FRAMES:
            progressive, components = marker in _PROGRESSIVE_FRAMES, data[position + 9]
        elif marker == _SCAN:
            return progressive or data[position + 4] < components
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")


_FILL, _SCAN = 0xFF, 0xDA
# Without a length behind them.
_LONE_MARKERS = frozenset((0x00, 0x01, *range(0xD0, 0xD9), _FILL))
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE_FRAMES = frozenset((0xC2, 0xC6, 0xCA, 0xCE))

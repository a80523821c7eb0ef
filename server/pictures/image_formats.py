"""Detects the format of a picture file from its first bytes: the supported ones, and names for the usual others.

Only the content counts, never a file name or a media type.
"""

from __future__ import annotations

import re

# As Pillow names them. No other decoder ever sees a caller's bytes, and none of these runs an external program.
READ = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
READ_IN_WORDS = "JPEG, PNG, WebP, GIF (first frame), BMP or TIFF"

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
    (b"data:", "a data URI (send the bytes that it encodes)"),
)
_MARKUP = (
    (re.compile(rb"<svg[\s>]", re.IGNORECASE), "SVG"),
    (re.compile(rb"<(!doctype\s+)?html", re.IGNORECASE), "HTML"),
)


def name_of(data: bytes) -> str | None:
    """Name an unsupported format for an error message; None if it is unknown."""
    beginning = data[:_BEGINNING]
    if beginning[4:8] == b"ftyp":
        return _BRANDS.get(beginning[8:12], "an MP4 or HEIF container")
    for signature, name in _SIGNATURES:
        if beginning.startswith(signature):
            return name
    return next((name for pattern, name in _MARKUP if pattern.search(beginning)), None)


def holds_whole_jpeg(data: bytes) -> bool:
    """Whether decoding a JPEG keeps all its coefficients in memory: it is progressive, or has several scans.

    Raises:
        ValueError: the file has no frame or no scan.
    """
    position, components, progressive = 2, 0, False
    while True:
        position = data.find(b"\xff", position)
        if position < 0 or position + 10 > len(data):
            raise ValueError("no image data")
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

"""Detects the format of a picture file from its first bytes: the supported ones, and names for the usual others.

Only the content counts, never a file name or a media type.
"""

from __future__ import annotations

import re

from regard.server.pictures.file_structure import walk_jpeg

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
    structure = walk_jpeg(data)
    if not structure.components or not structure.first_scan:
        raise ValueError("no image data")
    return structure.progressive or structure.first_scan < structure.components

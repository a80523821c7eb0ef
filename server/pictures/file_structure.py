"""Refuses picture files of absurdly many parts, in one walk over their structure, before Pillow sees them.

Pillow reads headers in Python and keeps something for each part, and decoders go over a picture once for each scan, so
that a small file can cost minutes or gigabytes. Nothing is decoded here, and what is merely damaged is left to Pillow.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

# Real files have tens of them: a colour profile or thumbnail comes in parts of 64 KiB.
MOST_SEGMENTS = 1024
# Real progressive files have at most some twenty.
MOST_SCANS = 64
# Bytes between segments, through which Pillow goes one by one.
MOST_FILL = 4096
# Some encoders write image data in chunks of a kilobyte.
MOST_CHUNKS = 16_384
MOST_TEXTS = 1024
MOST_BLOCKS = 16_384
MOST_ENTRIES = 1024
# Of one entry, as offsets of strips or tiles are.
MOST_VALUES = 65_536
# Pillow decodes run lengths in Python.
MOST_RUN_LENGTH_BYTES = 1 << 20


class TooManyParts(ValueError):
    """A file has more parts than a picture needs, or a coding that cannot be read safely; the message says of what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JpegStructure:
    """What the segments of a JPEG say.

    Attributes:
        progressive: its scans refine the whole picture.
        components: of the picture; 0 without a frame.
        first_scan: components of the first scan; 0 without a scan.
    """

    progressive: bool
    components: int
    first_scan: int


def check_structure(data: bytes) -> None:
    """Let a file pass that Pillow may open.

    Raises:
        TooManyParts: it has too many parts.
    """
    if data.startswith(b"\xff\xd8"):
        walk_jpeg(data)
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        _walk_png(data)
    elif data.startswith((b"GIF87a", b"GIF89a")):
        _walk_gif(data)
    elif data.startswith(b"BM"):
        _check_bmp(data)
    elif data.startswith((b"II", b"MM")):
        _walk_tiff(data)


def walk_jpeg(data: bytes) -> JpegStructure:
    """Walk over the segments and scans of a JPEG.

    Raises:
        TooManyParts: there are too many, or too many bytes that belong to none.
    """
    progressive, components, first_scan = False, 0, 0
    segments = scans = fill = 0
    position = 2
    while found := _MARKER.search(data, position):
        if not scans:
            fill += found.start() - position
            _bound("bytes between segments", fill, MOST_FILL)
        marker = data[found.start() + 1]
        position = found.end()
        if marker == _END:
            break
        if marker in _LONE_MARKERS:
            continue
        segments += 1
        _bound("segments", segments, MOST_SEGMENTS)
        body = data[position : position + 10]
        if len(body) < 8:
            break
        if marker in _FRAMES:
            progressive, components = marker in _PROGRESSIVE_FRAMES, body[7]
        elif marker == _SCAN:
            scans += 1
            _bound("scans", scans, MOST_SCANS)
            first_scan = first_scan or body[2]
        position += max(int.from_bytes(body[:2], "big"), 2)
    if not scans:
        _bound("bytes between segments", fill + max(len(data) - position, 0) * (found is None), MOST_FILL)
    return JpegStructure(progressive=progressive, components=components, first_scan=first_scan)


# In coded data 0xFF is followed by 0x00 or a restart marker; before a marker it may stand more than once.
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_SCAN, _END = 0xDA, 0xD9
# Without a length behind them.
_LONE_MARKERS = frozenset((0x01, 0xD8, _END))
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE_FRAMES = frozenset((0xC2, 0xC6, 0xCA, 0xCE))


def _walk_png(data: bytes) -> None:
    position, chunks, profiles, texts = 8, 0, 0, 0
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        kind = data[position + 4 : position + 8]
        chunks += 1
        profiles += kind == b"iCCP"
        texts += kind in (b"tEXt", b"zTXt", b"iTXt", b"eXIf")
        _bound("chunks", chunks, MOST_CHUNKS)
        _bound("colour profiles", profiles, 1)
        _bound("texts", texts, MOST_TEXTS)
        if kind == b"IEND":
            return
        position += length + 12


def _walk_gif(data: bytes) -> None:
    """Walk over what comes before the first picture: Pillow reads its blocks one by one."""
    if len(data) < 13:
        return
    position, blocks = 13 + _colours(data[10]), 0
    while position < len(data) and data[position] == 0x21:
        position += 2
        while position < len(data) and data[position]:
            blocks += 1
            _bound("blocks before its picture", blocks, MOST_BLOCKS)
            position += 1 + data[position]
        position += 1


def _colours(flags: int) -> int:
    """Return the bytes of the table of colours that flags announce."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _check_bmp(data: bytes) -> None:
    if len(data) < 34 or int.from_bytes(data[14:18], "little") < 40:
        return
    if int.from_bytes(data[30:34], "little") in (1, 2):
        _bound("bytes in run lengths", len(data), MOST_RUN_LENGTH_BYTES)


def _walk_tiff(data: bytes) -> None:
    """Look at the first directory, which is the only one that is read."""
    order = "<" if data[:2] == b"II" else ">"
    try:
        big = struct.unpack_from(f"{order}H", data, 2)[0] == _BIG_TIFF
        start = struct.unpack_from(f"{order}Q" if big else f"{order}L", data, 8 if big else 4)[0]
        entries = struct.unpack_from(f"{order}Q" if big else f"{order}H", data, start)[0]
        _bound("entries", entries, MOST_ENTRIES)
        start += 8 if big else 2
        for number in range(entries):
            entry = struct.unpack_from(
                f"{order}HHQ" if big else f"{order}HHL", data, start + number * (20 if big else 12)
            )
            _check_entry(data, order, big, start + number * (20 if big else 12), *entry)
    except struct.error:  # It is cut, which Pillow will say.
        return


_BIG_TIFF = 43
_COMPRESSION = 259
_FAX = (2, 3, 4)
_BYTES = (1, 2, 7)  # types whose values are kept as bytes


def _check_entry(data: bytes, order: str, big: bool, place: int, tag: int, kind: int, count: int) -> None:
    if kind not in _BYTES:
        _bound(f"values of entry {tag}", count, MOST_VALUES)
    if (
        tag == _COMPRESSION
        and kind == 3
        and struct.unpack_from(f"{order}H", data, place + (12 if big else 8))[0] in _FAX
    ):
        # Its decoder takes any damage for data, and writes a line about each to standard error.
        raise TooManyParts("is compressed as a fax is (CCITT), which is not supported")


def _bound(what: str, count: int, most: int) -> None:
    if count > most:
        raise TooManyParts(f"has more than {most} {what}" if most != 1 else f"has more than one of its {what}")

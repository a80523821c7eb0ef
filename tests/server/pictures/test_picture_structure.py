"""Files of absurdly many parts are refused before Pillow sees them; all others are its business."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from regard.contract.image_input import ImageInput
from regard.server.errors import InvalidRequest
from regard.server.pictures.file_structure import TooManyParts, check_structure, walk_jpeg
from regard.server.pictures.image_header import read_header
from regard.server.settings import Limits


def segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))


def tiff(*entries: tuple[int, int, int, int], order: str = "<", big: bool = False) -> bytes:
    mark = b"II" if order == "<" else b"MM"
    if big:
        body = b"".join(struct.pack(f"{order}HHQQ", *entry) for entry in entries)
        return mark + struct.pack(f"{order}HHHQQ", 43, 8, 0, 16, len(entries)) + body
    body = b"".join(struct.pack(f"{order}HHLL", *entry) for entry in entries)
    return mark + struct.pack(f"{order}HLH", 42, 8, len(entries)) + body


FRAME = segment(0xC2, b"\x08\x00\x10\x00\x10\x01\x01\x11\x00")
SCAN = segment(0xDA, b"\x01\x01\x00\x00\x00\x00") + b"\x00"
PNG = b"\x89PNG\r\n\x1a\n"
BITMAP = b"BM" + bytes(12) + struct.pack("<LllHHL", 40, 4, 4, 1, 8, 1)

HOSTILE: dict[str, tuple[bytes, str]] = {
    "EXIF segments": (b"\xff\xd8" + segment(0xE1, b"Exif\0\0") * 2000, "more than 1024 segments"),
    "empty segments": (b"\xff\xd8" + segment(0xE5, b"") * 2000 + SCAN, "more than 1024 segments"),
    "scans": (b"\xff\xd8" + FRAME + SCAN * 100, "more than 64 scans"),
    "fill bytes": (b"\xff\xd8" + b"\xff" * 10_000 + FRAME + SCAN, "more than 4096 bytes between segments"),
    "nothing but fill bytes": (b"\xff\xd8" + b"\xff" * 10_000, "more than 4096 bytes between segments"),
    "junk": (b"\xff\xd8" + b"\x00" * 10_000, "more than 4096 bytes between segments"),
    "PNG chunks": (PNG + chunk(b"prVt") * 20_000, "more than 16384 chunks"),
    "PNG profiles": (PNG + chunk(b"iCCP") * 2, "more than one of its colour profiles"),
    "PNG texts": (PNG + chunk(b"zTXt") * 2000, "more than 1024 texts"),
    "GIF comments": (b"GIF89a" + bytes(7) + b"\x21\xfe" + b"\x01x" * 20_000, "more than 16384 blocks"),
    "BMP run lengths": (BITMAP + bytes(2 << 20), "more than 1048576 bytes in run lengths"),
    "TIFF strips": (tiff((273, 4, 8_400_000, 8)), "more than 65536 values of entry 273"),
    "TIFF tiles": (tiff((324, 4, 8_400_000, 8), order=">"), "more than 65536 values of entry 324"),
    "BigTIFF strips": (tiff((273, 16, 8_400_000, 8), big=True), "more than 65536 values of entry 273"),
    "TIFF entries": (tiff(*[(256, 3, 1, 1)] * 2000), "more than 1024 entries"),
    "fax": (tiff((259, 3, 1, 3)), "is compressed as a fax is"),
    "fax of Motorola's order": (tiff((259, 3, 1, 4 << 16), order=">"), "is compressed as a fax is"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_has_too_many_parts_is_refused_in_words(name: str) -> None:
    data, said = HOSTILE[name]
    with pytest.raises(TooManyParts, match=said):
        check_structure(data)


@pytest.mark.parametrize("name", ["EXIF segments", "TIFF strips", "PNG chunks", "scans"])
def test_the_error_is_that_of_the_picture(name: str) -> None:
    data, said = HOSTILE[name]
    image = ImageInput(height=64, width=64, rows=2, columns=2, resampling="bilinear", ground=(255, 255, 255))
    with pytest.raises(InvalidRequest, match=said) as caught:
        read_header(data, image, limits=Limits(), field="images[0]")
    assert caught.value.field == "images[0]"


def saved(format_: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.effect_noise((200, 150), 80).convert("RGB").save(stream, format_, **options)
    return stream.getvalue()


ORDINARY = {
    "JPEG": saved("JPEG", exif=Image.Exif().tobytes(), icc_profile=b"p" * 200_000, comment="c" * 60_000),
    "progressive JPEG": saved("JPEG", progressive=True, optimize=True),
    "JPEG with restarts": saved("JPEG", restart_marker_blocks=1),
    "PNG": saved("PNG", icc_profile=b"p" * 3000),
    "GIF": saved("GIF", comment=b"c" * 5000),
    "BMP": saved("BMP"),
    "TIFF": saved("TIFF", compression="tiff_lzw"),
    "TIFF of strips of a row": saved("TIFF", compression="raw", tiffinfo={278: 1}),
    "BigTIFF": saved("TIFF", big_tiff=True),
    "WEBP": saved("WEBP"),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_files_pass(name: str) -> None:
    check_structure(ORDINARY[name])


@pytest.mark.parametrize("cut", [3, 20, 200])
@pytest.mark.parametrize("name", ORDINARY)
def test_a_cut_file_is_left_to_pillow(name: str, cut: int) -> None:
    check_structure(ORDINARY[name][:cut])


@given(
    st.sampled_from([b"\xff\xd8", PNG, b"GIF89a" + bytes(4), b"BM", b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b""]),
    st.binary(max_size=300),
)
def test_any_bytes_end_in_an_answer(start: bytes, rest: bytes) -> None:
    with suppress(TooManyParts):
        check_structure(start + rest)


def test_the_structure_of_a_jpeg_is_read() -> None:
    progressive, plain = walk_jpeg(ORDINARY["progressive JPEG"]), walk_jpeg(ORDINARY["JPEG"])
    assert (progressive.progressive, progressive.components, progressive.first_scan) == (True, 3, 3)
    assert (plain.progressive, plain.components, plain.first_scan) == (False, 3, 3)

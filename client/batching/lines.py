"""Cuts a stream of bytes into lines of text and puts them into batches of a bounded size.

Does not know what becomes of the lines, and waits for no more of them than have come.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from regard.client.batching.grouping import in_groups

MAX_LINE_BYTES = 16 * 1024 * 1024
_READ_BYTES = 64 * 1024
_BATCH_LINES = 32
_BATCH_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line without its end.

    Attributes:
        number: counted from 1.
        text: empty if there is an error.
        error: why the line is no text, in words.
    """

    number: int
    text: str
    error: str | None = None


def read_lines(read: Callable[[int], bytes | None]) -> Iterator[list[Line]]:
    """Yield the lines of a stream in batches, as they come; `read(n)` returns at most n bytes, none at the end.

    A line ends with LF or CR LF. One that is not valid UTF-8, or is longer than `MAX_LINE_BYTES`, has an error in place
    of its text and costs no other line anything.
    """
    return _numbered(_chunks(read))


def batches_of(texts: Iterable[str]) -> Iterator[list[Line]]:
    """Yield texts that are there already, in batches like those of `read_lines`."""
    return _batches(_text_line(number, text) for number, text in enumerate(texts, start=1))


def _chunks(read: Callable[[int], bytes | None]) -> Iterator[list[bytes | None]]:
    """Yield the complete lines of every piece read; None stands for a line that is too long."""
    rest = bytearray()
    too_long = False
    while True:
        data = read(_READ_BYTES)
        if data is None:  # a terminal or pipe in non-blocking mode that has nothing yet
            time.sleep(0.02)
            continue
        if not data:
            break
        *complete, tail = data.split(b"\n")
        lines: list[bytes | None] = []
        for end in complete:
            rest += end
            lines.append(None if too_long or len(rest) > MAX_LINE_BYTES else bytes(rest))
            rest.clear()
            too_long = False
        rest += tail
        if len(rest) > MAX_LINE_BYTES:
            too_long = True
            rest.clear()
        yield lines
    if rest or too_long:
        yield [None if too_long else bytes(rest)]


def _numbered(chunks: Iterable[list[bytes | None]]) -> Iterator[list[Line]]:
    number = 0
    for chunk in chunks:
        lines: list[Line] = []
        for data in chunk:
            number += 1
            lines.append(_line(number, data))
        yield from _batches(lines)


def _line(number: int, data: bytes | None) -> Line:
    if data is None:
        return Line(number=number, text="", error=f"longer than {MAX_LINE_BYTES} bytes")
    if number == 1:
        data = data.removeprefix(codecs.BOM_UTF8)  # which some editors write before the text and nobody means
    try:
        return Line(number=number, text=data.removesuffix(b"\r").decode())
    except UnicodeDecodeError as error:
        problem = f"not valid UTF-8 (byte {error.start + 1} is 0x{data[error.start]:02x})"
        return Line(number=number, text="", error=problem)


def _text_line(number: int, text: str) -> Line:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Python decodes what it cannot read, from a command line for example, into lone surrogates.
        return Line(number=number, text="", error="not valid UTF-8")
    return Line(number=number, text=text)


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    # 4 bytes a character are at least what there is; exact counting would cost more than it gives.
    return in_groups(lines, lambda line: 4 * len(line.text), most=_BATCH_LINES, most_size=_BATCH_BYTES)

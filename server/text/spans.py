"""Computes exact token spans from the rough offsets of a tokenizer, and byte offsets from character offsets."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import numpy as np

# Stands for the space before a word in the vocabularies of many tokenizers.
_SPACE = "\u2581"


def partition(text: str, starts: Sequence[int]) -> list[tuple[int, int]]:
    """Give every character of a text but white space to exactly one token.

    Offsets of tokenizers are rough: after normalisation they name the first of several characters that became one,
    leave out what was deleted, and count the space before a word. But where a token starts is right, so it ends where
    the next one starts. A combining mark stays with the character before it.

    Args:
        text: without white space at its ends.
        starts: where each token starts, in order.

    Returns:
        [start, end) for each token in characters, without white space at the ends; empty if only white space is left.
    """
    bounds = [0]
    for start in starts[1:]:
        bounds.append(_after_marks(text, max(start, bounds[-1])))
    bounds.append(len(text))
    return [_trim(text, start, end) for start, end in pairwise(bounds)] if starts else []


def _after_marks(text: str, position: int) -> int:
    while 0 < position < len(text) and unicodedata.category(text[position])[0] == "M":
        position += 1
    return position


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def find_ends(pieces: Sequence[str], decoded: str, decode_first: Callable[[int], str]) -> list[int]:
    """For each token the number of characters that it and the ones before it wrote of a decoded text.

    Args:
        pieces: the tokens as the vocabulary writes them.
        decoded: what a decoder made of all of them.
        decode_first: what it makes of the first so many.
    """
    lengths = list(accumulate(map(len, pieces)))
    written = "".join(pieces).replace(_SPACE, " ")
    for lost in (0, 1):
        if written[lost:] == decoded:
            return [max(length - lost, 0) for length in lengths]
    # Some other decoder: what it makes of the first tokens tells where they end. Bytes that are not yet a character
    # have nothing in common with it, so that the token that completes it gets it whole.
    ends: list[int] = []
    for count in range(1, len(pieces) + 1):
        ends.append(max(_common(decode_first(count), decoded), ends[-1] if ends else 0))
    return ends


def _common(left: str, right: str) -> int:
    """How many characters two strings have in common at their start."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(left), len(right)))


class ByteOffsets:
    """Where the characters of a text start in its UTF-8 form.

    Raises:
        UnicodeEncodeError: the text holds half of a surrogate pair, so that it has no such form.
    """

    def __init__(self, text: str) -> None:
        self._table: list[int] | None = None
        if not text.isascii():
            points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
            sizes = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
            self._table = [0, *np.cumsum(sizes).tolist()]

    def __getitem__(self, character: int) -> int:
        return character if self._table is None else self._table[character]

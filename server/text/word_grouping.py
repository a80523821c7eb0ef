"""Groups the tokens of a text into words, from characters and spans alone.

The rules follow Unicode word boundaries (UAX 29) as far as token boundaries allow, for a token is never cut:

- white space ends a word; how much of it there is makes no difference;
- letters, digits and the marks on them make one word, with apostrophes and points between letters (it's, e.g) and
  points, commas and apostrophes between digits (3.50, 1,153) inside it;
- Katakana makes words of its own; in scripts without spaces (Han, Hiragana, Thai, Lao, Khmer, Myanmar) every token is
  a word;
- every other character, punctuation above all, is a word of its own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple


class TextToken(NamedTuple):
    """One subword and where it stands: UTF-8 bytes [start, end) of its text. The end of sentence has an empty span."""

    id: int
    piece: str
    start: int
    end: int


class Word(NamedTuple):
    """A run of tokens: [first_token, first_token + token_count), and its UTF-8 bytes [start, end)."""

    start: int
    end: int
    first_token: int
    token_count: int


class _Kind(Enum):
    LETTER = auto()
    DIGIT = auto()
    KATAKANA = auto()
    SPACELESS = auto()
    OTHER = auto()


_BETWEEN_LETTERS = "'\u2019.\u00b7"
_BETWEEN_DIGITS = "'\u2019.,"
_SPACELESS = ("CJK UNIFIED", "CJK COMPATIBILITY IDEO", "HIRAGANA", "THAI", "LAO", "KHMER", "MYANMAR")


def group_tokens(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Cut the tokens of a text into words.

    Args:
        text: what the spans count characters of.
        spans: [start, end) of each token, in order, without white space at the ends. A token may be empty, as a mark
            of the space before a word is: it goes with what follows, or, right behind another token, with that one.

    Returns:
        (first token, number of tokens) for each word, in order; every token is in exactly one.
    """
    words: list[tuple[int, int]] = []
    first = 0
    for index in range(1, len(spans)):
        if _is_boundary(text, word_start=spans[first][0], left_end=spans[index - 1][1], right=spans[index]):
            words.append((first, index - first))
            first = index
    if spans:
        words.append((first, len(spans) - first))
    return words


def _is_boundary(text: str, *, word_start: int, left_end: int, right: tuple[int, int]) -> bool:
    start, end = right
    if start > left_end:
        return True
    if start == end or left_end == word_start:
        return False
    return not _holds_together(text, start)


def _holds_together(text: str, position: int) -> bool:
    """Whether the characters around a position belong to one word."""
    right = text[position]
    if unicodedata.category(right)[0] == "M":
        return True
    before = _base_before(text, position)
    kinds = _kind(text[before]), _kind(right)
    if kinds == (_Kind.KATAKANA, _Kind.KATAKANA):
        return True
    if all(kind in (_Kind.LETTER, _Kind.DIGIT) for kind in kinds):
        return True
    # Right before or right after a connecting character: what stands on its other side decides.
    if kinds[1] is _Kind.OTHER:
        return position + 1 < len(text) and _connects(text[before], right, text[position + 1])
    return kinds[0] is _Kind.OTHER and before > 0 and _connects(text[_base_before(text, before)], text[before], right)


def _base_before(text: str, position: int) -> int:
    """Index of the last character before a position that is no combining mark, or 0."""
    index = position - 1
    while index > 0 and unicodedata.category(text[index])[0] == "M":
        index -= 1
    return index


def _connects(before: str, connector: str, after: str) -> bool:
    kinds = {_kind(before), _kind(after)}
    if kinds == {_Kind.LETTER}:
        return connector in _BETWEEN_LETTERS
    return kinds == {_Kind.DIGIT} and connector in _BETWEEN_DIGITS


@lru_cache(maxsize=4096)
def _kind(character: str) -> _Kind:
    category = unicodedata.category(character)
    if category[0] not in "LMN" and character != "_":
        return _Kind.OTHER
    name = unicodedata.name(character, "")
    if name.startswith(_SPACELESS):
        return _Kind.SPACELESS
    if "KATAKANA" in name:
        return _Kind.KATAKANA
    return _Kind.DIGIT if category[0] == "N" else _Kind.LETTER

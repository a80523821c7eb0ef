"""Tells a sentence that is all in capitals, writes it as sentences are written, and its translation in capitals."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]{2,}")
_I = re.compile(r"(?<![\w'])i(?=$|[^\w]|')")


def is_in_capitals(text: str) -> bool:
    """Whether two words or more have letters, all of them capitals: a word alone may be an acronym."""
    return len(_WORD.findall(text)) >= 2 and text == text.upper() != text.lower()


def to_sentence(text: str) -> str:
    """Return a sentence in capitals as a sentence: small letters but for the first one and for "I".

    It has as many characters, each where it was. Names lose their capitals: nothing tells them.
    """
    small = "".join(map(_lower, text))
    first = next((place for place, character in enumerate(small) if character.isalpha()), 0)
    small = small[:first] + text[first : first + 1] + small[first + 1 :]
    return _I.sub("I", small)


def to_capitals(text: str) -> str:
    """Return a text in capitals, as many characters: what has no single capital stays, but for ß, which becomes ẞ."""
    return "".join(map(_upper, text))


def _lower(character: str) -> str:
    lower = character.lower()
    return lower if len(lower) == 1 else character


def _upper(character: str) -> str:
    if character == "ß":
        return "ẞ"
    upper = character.upper()
    return upper if len(upper) == 1 else character

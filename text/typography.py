"""Writes typographic marks as plain ones and drops invisible ones, keeping where each character came from.

Curly quotes, apostrophes, dashes, ellipses, ligatures, full-width forms and no-break spaces become what a keyboard
writes; soft hyphens, zero-width marks and direction marks are dropped, as no reader sees them.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4\u02b9", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"),
        **dict.fromkeys("\u2013\u2014\u2015", "-"),
        **dict.fromkeys(
            "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
        "\u2026": "...",
    }
)
_DROPPED = (
    "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
_DELETED = str.maketrans(dict.fromkeys(_DROPPED))
# Ligatures and presentation forms of letters, and full-width letters, digits and marks.
_COMPATIBLE = re.compile("[\ufb00-\ufb06\uff01-\uff5e]")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainText:
    """A text in plain marks.

    Attributes:
        text: what is left.
        places: for each of its characters, where the one it came from stands in the text before; never falling.
    """

    text: str
    places: tuple[int, ...]


def write_plainly(text: str) -> PlainText:
    """Return a text in plain marks; one that has no others is the same."""
    if text.isascii():
        return PlainText(text=text, places=tuple(range(len(text))))
    parts: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        plain = character.translate(_PLAIN).translate(_DELETED)
        if plain and _COMPATIBLE.match(plain):
            plain = unicodedata.normalize("NFKC", plain)
        parts.append(plain)
        places += [place] * len(plain)
    return PlainText(text="".join(parts), places=tuple(places))

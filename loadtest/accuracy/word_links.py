"""Links the words of a sentence and its translation by what a model looked at, to compare them with gold links.

It does not know who computed the attention; texts are split at white space, as the gold links count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.scoring.alignments import Links

Weights = NDArray[np.float32]


class ByteSpan(NamedTuple):
    """A half-open range of UTF-8 bytes of a text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldPair:
    """A sentence, its translation and their links, (source word, target word) from 0; `possible` contains `sure`."""

    source: str
    target: str
    sure: Links
    possible: Links


def words_of(text: str) -> tuple[ByteSpan, ...]:
    """Where the words between white space stand."""
    spans: list[ByteSpan] = []
    at = 0
    encoded = text.encode()
    for word in text.split():
        start = encoded.index(word.encode(), at)
        at = start + len(word.encode())
        spans.append(ByteSpan(start, at))
    return tuple(spans)


def word_of_each(tokens: Sequence[tuple[int, int]], words: Sequence[ByteSpan]) -> tuple[int | None, ...]:
    """The word that each token belongs to: that of its last byte, or the next one where that byte is white space.

    None for a token without bytes, as the end of sentence is, and for white space at the end.
    """
    ends = [word.end for word in words]
    found: list[int | None] = []
    for start, end in tokens:
        word = int(np.searchsorted(ends, end - 1, side="right"))
        found.append(word if start < end and word < len(words) else None)
    return tuple(found)


def link_words(weights: Weights, sources: Sequence[int | None], targets: Sequence[int | None]) -> Links:
    """Link every target word to the source word that it looks at most.

    A word's share is the sum over its source tokens and the mean over its target tokens; tokens of no word, the end of
    sentence above all, are left out.

    Args:
        weights: attention [target, source] between tokens.
        sources: the word of every source token.
        targets: the word of every target token.
    """
    source_words = sorted({word for word in sources if word is not None})
    target_words = sorted({word for word in targets if word is not None})
    if not source_words:
        return frozenset()
    columns = np.array([-1 if word is None else word for word in sources])
    rows = np.array([-1 if word is None else word for word in targets])
    links: set[tuple[int, int]] = set()
    for target in target_words:
        row = weights[rows == target].mean(axis=0)
        shares = [float(row[columns == source].sum()) for source in source_words]
        links.add((source_words[int(np.argmax(shares))], target))
    return frozenset(links)

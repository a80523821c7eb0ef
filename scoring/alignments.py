"""Scores word alignments against gold ones: the alignment error rate.

It does not know how links were found, nor what the words are.
"""

from collections.abc import Sequence
from typing import Protocol

Links = frozenset[tuple[int, int]]  # (source word, target word), counted from 0


class Gold(Protocol):
    """What people linked in a sentence and its translation."""

    @property
    def sure(self) -> Links:
        """The links that are right beyond doubt."""
        ...

    @property
    def possible(self) -> Links:
        """The links that are not wrong, the sure ones among them."""
        ...


def parse_links(text: str) -> tuple[Links, Links]:
    """Read `0-0 1?2`: `i-j` is sure, `i?j` only possible. Returns sure and possible links; raises ValueError."""
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for part in text.split():
        mark = "-" if "-" in part else "?"
        source, _, target = part.partition(mark)
        if not (source.isdecimal() and target.isdecimal()):
            raise ValueError(f"a link is i-j or i?j, not {part!r}")
        link = (int(source), int(target))
        possible.add(link)
        if mark == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)


def alignment_error_rate(found: Sequence[Links], gold: Sequence[Gold]) -> float:
    """Return 1 - (|A and S| + |A and P|) / (|A| + |S|) over all sentences, 0 to 1: Och and Ney 2003, section 4.

    Raises ValueError where neither side has a link.
    """
    sure = sum(len(links & pair.sure) for links, pair in zip(found, gold, strict=True))
    possible = sum(len(links & pair.possible) for links, pair in zip(found, gold, strict=True))
    total = sum(map(len, found)) + sum(len(pair.sure) for pair in gold)
    if not total:
        raise ValueError("an alignment error rate needs at least one link")
    return 1.0 - (sure + possible) / total

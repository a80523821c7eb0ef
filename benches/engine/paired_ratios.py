"""Compares two sides that take turns: the order of turns, and the median of paired ratios with an interval.

It does not know what the sides do.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

CONFIDENCE = 0.95


class Ratio(NamedTuple):
    """A median of ratios.

    Attributes:
        median: of the pairs.
        low, high: between which the true median lies with a confidence of 95 %; for few pairs the extremes, which
            promise less.
        pairs: how many there were.
    """

    median: float
    low: float
    high: float
    pairs: int


def turns(pairs: int) -> Iterator[tuple[int, int]]:
    """Which side goes first and which second in each pair: 0 1, 1 0, 0 1, ... so that neither profits from a drift."""
    for number in range(pairs):
        yield (0, 1) if number % 2 == 0 else (1, 0)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The median of ours / theirs, pair by pair.

    The interval is that of order statistics: it supposes nothing of how times are distributed. Raises ValueError
    without pairs.
    """
    ratios = sorted(one / other for one, other in zip(ours, theirs, strict=True))
    if not ratios:
        raise ValueError("there are no pairs to compare")
    outside = _outside(len(ratios))
    return Ratio(statistics.median(ratios), ratios[outside], ratios[len(ratios) - 1 - outside], len(ratios))


def _outside(count: int) -> int:
    """How many of `count` sorted values may be left out at either end so that the rest holds the median."""
    outside = 0
    # Of all `count` values, so many or fewer lie below the median with this probability.
    tail = 2.0**-count
    while outside + 1 < count / 2:
        tail += math.comb(count, outside + 1) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        outside += 1
    return outside

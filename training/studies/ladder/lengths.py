"""Joins sentences to longer ones and measures BLEU with its uncertainty, by length and over whole texts."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from regard.training.data.translation_data import Pair

# Lengths of a source in words between spaces, both ends included.
BUCKETS = ((1, 9), (10, 14), (15, 19), (20, 29), (30, 39), (40, 59))
MOST_PARTS = 4
RESAMPLES = 1000
_SEED = 1

# One row a sentence: matching n-grams of 1 to 4 words, n-grams of 1 to 4 words, words, words of the reference.
Counts: TypeAlias = NDArray[np.int64]


class Estimate(NamedTuple):
    """A figure with the middle 95 % of what it is on resampled sentences."""

    value: float
    low: float
    high: float


class Joined(NamedTuple):
    """A pair made of neighbours."""

    pair: Pair
    parts: int


def join_neighbours(pairs: Sequence[Pair], parts: int) -> list[Joined]:
    """Return the same text in pairs of `parts` neighbours each, in order; the last has what is left over."""
    joined: list[Joined] = []
    for start in range(0, len(pairs), parts):
        group = pairs[start : start + parts]
        source, target = (" ".join(pair[side] for pair in group) for side in (0, 1))
        joined.append(Joined(Pair(source, target, group[0].language), len(group)))
    return joined


def bucket_of(source: str) -> tuple[int, int] | None:
    """Return the bucket of a source, None where it is longer than all."""
    words = len(source.split())
    return next((bucket for bucket in BUCKETS if bucket[0] <= words <= bucket[1]), None)


def metric() -> BLEU:
    """Return BLEU that takes capitals for small letters."""
    return BLEU(lowercase=True)


def count(translations: Sequence[str], references: Sequence[str]) -> Counts:
    """Return what BLEU counts in each sentence: Papineni et al. 2002, cut by sacreBLEU's 13a, capitals as small."""
    # effective_order only keeps the package from warning that single sentences have no BLEU; the counts are the same.
    counter = BLEU(lowercase=True, effective_order=True)
    rows: list[list[int]] = []
    for translation, reference in zip(translations, references, strict=True):
        score = counter.sentence_score(translation, [reference])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows, dtype=np.int64).reshape(len(rows), 10)


def bleu(counts: Counts) -> float:
    """Return the BLEU of all sentences together, 0 to 100."""
    sums: list[int] = counts.sum(axis=0).tolist()
    return BLEU.compute_bleu(sums[:4], sums[4:8], sums[8], sums[9], smooth_method="exp").score  # pyright: ignore[reportUnknownMemberType]  typed in part


def estimate(counts: Counts) -> Estimate:
    """Return BLEU with its interval by resampling sentences: Koehn 2004."""
    return _middle(bleu(counts), [bleu(counts[sample]) for sample in _samples(len(counts))])


def estimate_difference(counts: Counts, other: Counts) -> Estimate:
    """Return how much more BLEU the first has, both on the same sentences in every resampling."""
    sampled = [bleu(counts[sample]) - bleu(other[sample]) for sample in _samples(len(counts))]
    return _middle(bleu(counts) - bleu(other), sampled)


def _samples(size: int) -> list[NDArray[np.int64]]:
    # The same for every rung, so that rungs are compared on the same sentences.
    generator = np.random.default_rng(_SEED)
    return [generator.integers(0, size, size) for _ in range(RESAMPLES)]


def _middle(value: float, sampled: Sequence[float]) -> Estimate:
    low, high = np.percentile(np.array(sampled), (2.5, 97.5)).tolist()
    return Estimate(round(value, 2), round(low, 2), round(high, 2))

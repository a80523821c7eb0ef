"""Computes CIDEr-D: how far a caption says what people say of the same picture and seldom of others.

It does not know how captions were made, nor how text is cut into words.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_LONGEST = 4  # words of an n-gram
_SPREAD = 6.0  # of the lengths that CIDEr-D forgives

_Gram: TypeAlias = tuple[str, ...]
Words: TypeAlias = Sequence[str]


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A sentence as CIDEr sees it."""

    vectors: tuple[Mapping[_Gram, float], ...]  # of each order, term frequencies times inverse document frequencies
    norms: tuple[float, ...]
    length: int  # in bigrams, as the published scorer counts


class Cider:
    """Vedantam et al. 2015, section 3, and the changes of section 5 against gaming: clipped counts, lengths compared.

    What is returned is 10 times a similarity between 0 and 1, as the scorer of coco-caption has it. How rare an n-gram
    is, is counted in the references that the object is made of, all those of each picture.
    """

    def __init__(self, references: Sequence[Sequence[Words]]) -> None:
        self._seen = Counter(gram for each in references for gram in {gram for one in each for gram in _grams(one)})
        self._pictures = math.log(len(references))

    def score(self, captions: Sequence[Words], references: Sequence[Words]) -> list[float]:
        """Return the score of each caption of one picture, against the same references of it."""
        weighted = [self._weigh(reference) for reference in references]
        return [
            10.0 * sum(_similarity(found, other) for other in weighted) / len(weighted)
            for found in map(self._weigh, captions)
        ]

    def _weigh(self, sentence: Words) -> _Weighted:
        vectors: tuple[dict[_Gram, float], ...] = tuple({} for _ in range(_LONGEST))
        for gram, count in _grams(sentence).items():
            vectors[len(gram) - 1][gram] = count * (self._pictures - math.log(max(self._seen[gram], 1)))
        norms = tuple(math.sqrt(sum(value * value for value in vector.values())) for vector in vectors)
        return _Weighted(vectors, norms, max(len(sentence) - 1, 0))


def cider(captions: Sequence[Words], references: Sequence[Sequence[Words]]) -> float:
    """Return the mean over pictures with one caption each; what is rare is counted in these very references."""
    measure = Cider(references)
    pairs = zip(captions, references, strict=True)
    return sum(measure.score([caption], each)[0] for caption, each in pairs) / len(captions)


def _similarity(caption: _Weighted, reference: _Weighted) -> float:
    """Return the mean over orders of the clipped cosine of two sentences, less where their lengths differ."""
    total = 0.0
    for vector, norm, other, other_norm in zip(
        caption.vectors, caption.norms, reference.vectors, reference.norms, strict=True
    ):
        if norm and other_norm:
            shared = sum(min(value, other.get(gram, 0.0)) * other.get(gram, 0.0) for gram, value in vector.items())
            total += shared / (norm * other_norm)
    difference = caption.length - reference.length
    return total / _LONGEST * math.exp(-(difference**2) / (2 * _SPREAD**2))


def _grams(sentence: Words) -> Counter[_Gram]:
    return Counter(
        tuple(sentence[start : start + order])
        for order in range(1, _LONGEST + 1)
        for start in range(len(sentence) - order + 1)
    )

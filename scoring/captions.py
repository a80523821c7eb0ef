"""Scores captions against several references as papers do: BLEU-1 to BLEU-4 and CIDEr.

It does not know how captions were made. Both sides are compared in small letters and without punctuation.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast

from sacrebleu.metrics.bleu import BLEU, BLEUScore

from scoring.words import words

ORDERS = (1, 2, 3, 4)
PAPER = "Xu et al. 2015, hard attention"
# Show, Attend and Tell, table 1, hard attention on the test split of Flickr8k: BLEU without brevity penalty.
PUBLISHED: Mapping[str, float] = MappingProxyType({"bleu1": 67.0, "bleu2": 45.7, "bleu3": 31.4, "bleu4": 21.3})

_TEXT = "lowercase, without punctuation"
_SPREAD = 6.0  # of the lengths that CIDEr-D forgives

_Vector: TypeAlias = Mapping[tuple[str, ...], float]


class Score(NamedTuple):
    """One measure with what one must know to take it again.

    Attributes:
        metric: bleu1 to bleu4 with brevity penalty, bleu1_long to bleu4_long without, cider.
        value: 0 to 100; CIDEr has no upper end.
        published: what the paper reports on Flickr8k's test split; None where it reports nothing.
        signature: how it was taken.
    """

    metric: str
    value: float
    published: float | None
    signature: str


def score_captions(captions: Sequence[str], references: Sequence[Sequence[str]]) -> list[Score]:
    """Compare each caption with its references: BLEU-1 to BLEU-4 with and without brevity penalty, CIDEr.

    Raises ValueError where there is no caption, or a picture has no reference.
    """
    if not captions or not all(references):
        raise ValueError("captions are scored against at least one reference of at least one picture")
    cut = [words(caption) for caption in captions]
    cut_references = [[words(reference) for reference in each] for each in references]
    scores: list[Score] = []
    found, signature = _bleu(cut, cut_references)
    for order in ORDERS:
        precisions = found.precisions[:order]
        mean = math.exp(sum(map(math.log, precisions)) / order) if all(precisions) else 0.0
        name = f"bleu{order}"
        for metric, value, penalty in ((name, found.bp * mean, "with"), (f"{name}_long", mean, "without")):
            taken = f"{signature}, {_TEXT}, {penalty} brevity penalty"
            scores.append(Score(metric, round(value, 4), PUBLISHED[name], taken))
    value = round(100 * cider(cut, cut_references), 4)
    return [*scores, Score("cider", value, None, f"CIDEr-D of coco-caption times 100, {_TEXT}")]


def _bleu(captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> tuple[BLEUScore, str]:
    """Return corpus BLEU and its signature: of several references the one closest in length counts for brevity."""
    most = max(map(len, references))
    # sacreBLEU wants streams, one per place of a reference; None stands where a picture has fewer.
    streams = [[" ".join(each[place]) if place < len(each) else None for each in references] for place in range(most)]
    metric = BLEU(tokenize="none", force=True, smooth_method="none")
    # The package takes None for a missing reference, though its types do not say so.
    found = metric.corpus_score([" ".join(caption) for caption in captions], cast(list[list[str]], streams))
    return found, str(metric.get_signature())


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A sentence as CIDEr sees it."""

    vectors: tuple[_Vector, ...]  # of each order, term frequencies times inverse document frequencies
    norms: tuple[float, ...]
    length: int  # in bigrams, as the published scorer counts


def cider(captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> float:
    """Return the mean CIDEr-D of captions against their references, all cut into words: Vedantam et al. 2015.

    Section 3 and the changes of section 5 against gaming (clipped counts, a Gaussian of the lengths' difference), times
    10, as the scorer of coco-caption has it. How rare an n-gram is, is counted in these very references.
    """
    seen = Counter(gram for each in references for gram in {gram for one in each for gram in _grams(one)})
    pictures = math.log(len(references))

    def weigh(sentence: Sequence[str]) -> _Weighted:
        vectors: tuple[dict[tuple[str, ...], float], ...] = tuple({} for _ in ORDERS)
        for gram, count in _grams(sentence).items():
            vectors[len(gram) - 1][gram] = count * (pictures - math.log(max(seen[gram], 1)))
        norms = tuple(math.sqrt(sum(value * value for value in vector.values())) for vector in vectors)
        return _Weighted(vectors, norms, max(len(sentence) - 1, 0))

    total = 0.0
    for caption, each in zip(captions, references, strict=True):
        weighted = weigh(caption)
        total += sum(_similarity(weighted, weigh(reference)) for reference in each) / len(each)
    return 10.0 * total / len(captions)


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
    return total / len(ORDERS) * math.exp(-(difference**2) / (2 * _SPREAD**2))


def _grams(sentence: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(sentence[start : start + order]) for order in ORDERS for start in range(len(sentence) - order + 1)
    )

"""Scores captions against several references as papers do: BLEU-1 to BLEU-4 and CIDEr.

It does not know how captions were made. Both sides are compared in small letters and without punctuation.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

from sacrebleu.metrics.bleu import BLEU, BLEUScore

from regard.scoring.cider import cider
from regard.scoring.words import words

ORDERS = (1, 2, 3, 4)
PAPER = "Xu et al. 2015, hard attention"
# Show, Attend and Tell, table 1, hard attention on the test split of Flickr8k: BLEU without brevity penalty.
PUBLISHED: Mapping[str, float] = MappingProxyType({"bleu1": 67.0, "bleu2": 45.7, "bleu3": 31.4, "bleu4": 21.3})

_TEXT = "lowercase, without punctuation"


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

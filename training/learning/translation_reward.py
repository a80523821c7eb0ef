"""Says how good translations are as a self-critical run asks: by the n-grams that they share with a reference.

GLEU of Wu et al. 2016, section 7, BLEU's like for a single sentence. It does not know what a reward does.
"""

import re
from collections import Counter

import torch
from torch import Tensor

from regard.training.data.vocabulary import END, SPECIAL, Vocabulary

_LONGEST = 4  # words of an n-gram
_WORD = re.compile(r"\w+|[^\w\s]")


class TranslationReward:
    """GLEU over words and marks, with the end for a word, so that a sentence gains nothing by breaking off."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def __call__(self, samples: Tensor, targets: Tensor) -> Tensor:
        """Return float32 [source, sample] of samples int64 [source, sample, length], targets [source, target, length].

        A sample is compared with the target that it is most like.
        """
        return torch.tensor(
            [
                [max(_gleu(one, other) for other in wanted) for one in said]
                for said, wanted in zip(self._read(samples), self._read(targets), strict=True)
            ],
            device=samples.device,
        )

    def _read(self, rows: Tensor) -> list[list[Counter[tuple[str, ...]]]]:
        listed: list[list[list[int]]] = rows.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  torch types it in part
        return [[self._grams(ids) for ids in each] for each in listed]

    def _grams(self, ids: list[int]) -> Counter[tuple[str, ...]]:
        words = [*_WORD.findall(self._vocabulary.decode(ids)), *[SPECIAL[END]] * (END in ids)]
        return Counter(
            tuple(words[start : start + order])
            for order in range(1, _LONGEST + 1)
            for start in range(len(words) - order + 1)
        )


def _gleu(said: Counter[tuple[str, ...]], wanted: Counter[tuple[str, ...]]) -> float:
    """Return the smaller of precision and recall over n-grams of all orders."""
    return (said & wanted).total() / max(said.total(), wanted.total(), 1)

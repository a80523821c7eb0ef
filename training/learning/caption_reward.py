"""Says how good captions are as a self-critical run asks: by CIDEr-D against the captions that people gave the picture.

It does not know pictures, nor what a reward does.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from regard.scoring.cider import Cider
from regard.scoring.words import words
from regard.training.data.vocabulary import END, SPECIAL, Vocabulary


class CaptionReward:
    """CIDEr-D with the end for a word, so that a caption gains nothing by breaking off before its last word.

    How rare an n-gram is, is counted in the captions that it is made of, all those of each picture.
    """

    def __init__(self, captions: Iterable[Sequence[str]], vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._cider = Cider([[[*words(caption), SPECIAL[END]] for caption in each] for each in captions])

    def __call__(self, samples: Tensor, targets: Tensor) -> Tensor:
        """Return float32 [source, sample] of samples and targets int64 [source, sample or target, length]."""
        pairs = zip(samples, targets, strict=True)
        scores = [self._cider.score(self._read(said), self._read(wanted)) for said, wanted in pairs]
        return torch.tensor(scores, device=samples.device)

    def _read(self, rows: Tensor) -> list[list[str]]:
        listed: list[list[int]] = rows.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  torch types it in part
        return [self._words(ids) for ids in listed]

    def _words(self, ids: list[int]) -> list[str]:
        said = words(self._vocabulary.decode(ids))
        return [*said, SPECIAL[END]] if END in ids else said

"""A run that goes on reads numbers from what an earlier one left, and runs nothing that is in it (M07)."""

import os
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.training.data.toy_data import make_toy
from regard.training.data.translation_data import BatchConfig, TranslationData
from regard.training.data.vocabulary import Vocabulary
from regard.training.learning.fit import FitConfig, Hardware, fit
from regard.training.models.rnn import Rnn, RnnConfig


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._marker,)


def test_a_hostile_checkpoint_is_refused_when_a_run_goes_on(tmp_path: Path) -> None:
    resume = tmp_path / "run" / "resume" / "last.ckpt"
    resume.parent.mkdir(parents=True)
    torch.save({"state_dict": Payload(tmp_path / "marker")}, resume)
    corpus = make_toy("copy", pairs=20)
    vocabulary, output = Vocabulary.train(
        [pair.source for pair in corpus.train], [pair.target for pair in corpus.train], size=64
    )
    model = Rnn(RnnConfig(vocabulary=vocabulary.size, output=output, embedding=4, encoder=2, decoder=4, attention=4))

    def measure(model: nn.Module) -> Mapping[str, float]:
        return {}

    def keep(model: nn.Module, epoch: int, figures: Mapping[str, float], best: bool) -> None:
        raise AssertionError("nothing should have been trained")

    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        fit(
            model,
            TranslationData(corpus, vocabulary, BatchConfig(tokens=200), output=output, seed=1),
            FitConfig(epochs=1),
            hardware=Hardware(accelerator="cpu", threads=1),
            folder=tmp_path / "run",
            measure=measure,
            keep=keep,
        )
    assert not (tmp_path / "marker").exists()

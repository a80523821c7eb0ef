"""Names the runs that can be repeated: each recipe is a function that returns all settings.

It does not know how a run is carried out. Recipes import what they need when they are called, so that a command can
list them without loading torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from training.fit import FitConfig
    from training.rnn import Rnn
    from training.translation_data import BatchConfig, Corpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a run depends on, besides the data themselves."""

    name: str
    source_language: str
    target_language: str
    read: Callable[[Path], Corpus]  # given the data folder
    needs_data: bool = True
    vocabulary: int  # entries to learn, at most
    alphabet: int = 100  # characters to keep
    model: Callable[[int, int], Rnn]  # given the entries that were learnt and those that can be predicted
    batches: BatchConfig
    fit: FitConfig
    measured_sources: int = 500  # validation sources translated after each epoch
    alignments: str | None = None  # gold alignments to score the attention against, in the data folder


def en_es_rnn() -> Recipe:
    """English to Spanish on Tatoeba pairs, recurrent with additive attention."""
    from training.fit import FitConfig
    from training.rnn import Rnn, RnnConfig
    from training.translation_data import BatchConfig, read_tatoeba

    def read(data: Path) -> Corpus:
        return read_tatoeba(data, "spa")

    def model(vocabulary: int, output: int) -> Rnn:
        return Rnn(RnnConfig(vocabulary=vocabulary, output=output, dropout=0.15))

    return Recipe(
        name="en_es_rnn",
        source_language="en",
        target_language="es",
        read=read,
        vocabulary=6000,
        model=model,
        batches=BatchConfig(tokens=1000, join=0.08, upper=0.004, plain=0.02),
        fit=FitConfig(epochs=9, monitor="valid_chrf", higher_is_better=True),
        alignments="alignments/xlwa-en-es/dev.tsv",
    )


def toy_reverse() -> Recipe:
    """Words backwards, learnt in seconds, to try things out."""
    return _toy("toy_reverse", reverse=True)


def toy_copy() -> Recipe:
    """Words as they are, learnt in seconds, to try things out."""
    return _toy("toy_copy", reverse=False)


def _toy(name: str, *, reverse: bool) -> Recipe:
    from training.fit import FitConfig
    from training.rnn import Rnn, RnnConfig
    from training.toy_data import read_toy
    from training.translation_data import BatchConfig

    def read(_: Path) -> Corpus:
        return read_toy(reverse=reverse)

    def model(vocabulary: int, output: int) -> Rnn:
        return Rnn(
            RnnConfig(
                vocabulary=vocabulary, output=output, embedding=32, encoder=32, decoder=64, attention=32, dropout=0.1
            )
        )

    return Recipe(
        name=name,
        source_language="en",
        target_language="en",
        read=read,
        needs_data=False,
        vocabulary=64,
        model=model,
        batches=BatchConfig(tokens=400),
        fit=FitConfig(
            epochs=12,
            learning_rate=1e-2,
            label_smoothing=0.0,
            average_decay=0.9,
            monitor="valid_chrf",
            higher_is_better=True,
        ),
        measured_sources=100,
    )


RECIPES = {recipe.__name__: recipe for recipe in (en_es_rnn, toy_reverse, toy_copy)}

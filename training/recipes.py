"""Names the runs that can be repeated: each recipe is a function that returns all settings.

It does not know how a run is carried out. Recipes import what they need when they are called, so that a command can
list them without loading torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from training.checkpoint import TrainedModel
    from training.fit import FitConfig
    from training.rnn import RnnConfig
    from training.toy_data import Task
    from training.toy_models import Rung
    from training.translation_data import BatchConfig, Corpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a run depends on, besides the data themselves."""

    name: str
    source_language: str
    target_languages: tuple[str, ...]  # with more than one, sources end in an entry of their target language
    read: Callable[[Path], Corpus]  # given the data folder
    needs_data: bool = True
    vocabulary: int  # entries to learn, at most
    alphabet: int = 100  # characters to keep
    lower: bool = False  # capitals are taken for small letters
    model: Callable[[int, int], TrainedModel]  # given the entries that were learnt and those that can be predicted
    batches: BatchConfig
    fit: FitConfig
    measured_sources: int = 500  # validation sources translated after each epoch
    alignments: str | None = None  # gold alignments to score the attention against, in the data folder
    alignments_turned: bool = False  # whether their targets are this recipe's sources
    score_as_published: bool = False  # on lowercased, tokenised text too


def en_es_rnn() -> Recipe:
    """English to Spanish on Tatoeba pairs, recurrent with additive attention."""
    from training.corpora import read_tatoeba
    from training.fit import FitConfig
    from training.rnn import Rnn, RnnConfig
    from training.translation_data import BatchConfig

    return Recipe(
        name="en_es_rnn",
        source_language="en",
        target_languages=("es",),
        read=lambda data: read_tatoeba(data, "spa"),
        vocabulary=6000,
        model=lambda vocabulary, output: Rnn(RnnConfig(vocabulary=vocabulary, output=output, dropout=0.15)),
        batches=BatchConfig(tokens=1000, join=0.08, upper=0.004, plain=0.02),
        fit=FitConfig(epochs=9, monitor="valid_chrf", higher_is_better=True),
        alignments="alignments/xlwa-en-es/dev.tsv",
    )


def en_xx_transformer() -> Recipe:
    """English to Spanish, French and German on Tatoeba pairs, a Transformer; an epoch has as many of each."""
    from training.corpora import read_tatoeba_into
    from training.fit import FitConfig
    from training.transformer import Transformer, TransformerConfig
    from training.translation_data import BatchConfig

    languages = ("es", "fr", "de")
    return Recipe(
        name="en_xx_transformer",
        source_language="en",
        target_languages=languages,
        read=lambda data: read_tatoeba_into(data, languages),
        vocabulary=8000,
        alphabet=120,
        model=lambda vocabulary, output: Transformer(TransformerConfig(vocabulary=vocabulary, output=output)),
        batches=BatchConfig(tokens=1400, join=0.06, upper=0.008, plain=0.02, pairs=20_000),
        fit=FitConfig(
            epochs=42, learning_rate=1.5e-3, warm_up=0.03, patience=12, monitor="valid_chrf", higher_is_better=True
        ),
        measured_sources=600,
        alignments="alignments/xlwa-en-es/dev.tsv",
    )


def multi30k_plain() -> Recipe:
    """Multi30k English to German, recurrent without attention: the first decoder state carries the sentence."""
    from training.rnn import Rnn

    return _multi30k(
        "multi30k_plain",
        lambda vocabulary, output: Rnn(_rung(vocabulary, output, context="none")),
        epochs=14,
    )


def multi30k_fixed() -> Recipe:
    """Multi30k English to German, recurrent with one context vector for all steps."""
    from training.rnn import Rnn

    return _multi30k(
        "multi30k_fixed",
        lambda vocabulary, output: Rnn(_rung(vocabulary, output, context="fixed")),
        epochs=14,
    )


def multi30k_attention() -> Recipe:
    """Multi30k English to German, recurrent with additive attention."""
    from training.rnn import Rnn

    return _multi30k(
        "multi30k_attention",
        lambda vocabulary, output: Rnn(_rung(vocabulary, output, context="attention")),
        epochs=14,
    )


def multi30k_transformer() -> Recipe:
    """Multi30k English to German, the small Transformer of Wu et al. 2021."""
    from training.transformer import Transformer, TransformerConfig

    def model(vocabulary: int, output: int) -> Transformer:
        sizes = TransformerConfig(
            vocabulary=vocabulary,
            output=output,
            dim=128,
            feed_forward=256,
            encoder_layers=4,
            decoder_layers=4,
            dropout=0.3,
        )
        return Transformer(sizes)

    return _multi30k("multi30k_transformer", model, epochs=40, learning_rate=4e-3)


def _rung(vocabulary: int, output: int, *, context: Literal["none", "fixed", "attention"]) -> RnnConfig:
    """Return the sizes that all recurrent rungs of the ladder have."""
    from training.rnn import RnnConfig

    return RnnConfig(
        vocabulary=vocabulary, output=output, embedding=256, encoder=256, decoder=320, dropout=0.3, context=context
    )


def _multi30k(
    name: str, model: Callable[[int, int], TrainedModel], *, epochs: int, learning_rate: float = 2e-3
) -> Recipe:
    """Return a rung of the ladder: all learn from the same batches, with some sentences joined to long ones."""
    from training.corpora import read_multi30k
    from training.fit import FitConfig
    from training.translation_data import BatchConfig

    return Recipe(
        name=name,
        source_language="en",
        target_languages=("de",),
        read=read_multi30k,
        vocabulary=6000,
        lower=True,
        model=model,
        batches=BatchConfig(tokens=1600, join=0.1),
        fit=FitConfig(epochs=epochs, learning_rate=learning_rate, monitor="valid_bleu", higher_is_better=True),
        alignments="alignments/bicici-de-en/test.tsv",
        alignments_turned=True,
        score_as_published=True,
    )


def toy_reverse() -> Recipe:
    """Words backwards, learnt in seconds, to try things out."""
    return _toy("toy_reverse", "reverse", "attention")


def toy_copy() -> Recipe:
    """Words as they are, learnt in seconds, to try things out."""
    return _toy("toy_copy", "copy", "attention")


def toy_reverse_plain() -> Recipe:
    """Up to ten words backwards without attention: long ones go wrong."""
    return _toy("toy_reverse_plain", "reverse", "plain", pairs=3000, longest=10, dropout=0.0)


def toy_reverse_fixed() -> Recipe:
    """Up to ten words backwards with one context vector for all steps: long ones go wrong."""
    return _toy("toy_reverse_fixed", "reverse", "fixed", pairs=3000, longest=10, dropout=0.0)


def toy_reverse_lstm() -> Recipe:
    """Up to ten words backwards, LSTM with additive attention."""
    return _toy("toy_reverse_lstm", "reverse", "lstm", pairs=3000, longest=10, dropout=0.0)


def toy_reverse_transformer() -> Recipe:
    """Up to ten words backwards, a Transformer of two layers on either side."""
    return _toy("toy_reverse_transformer", "reverse", "transformer", pairs=3000, longest=10, dropout=0.0)


def _toy(name: str, task: Task, rung: Rung, *, pairs: int = 1000, longest: int = 6, dropout: float = 0.1) -> Recipe:
    from training.fit import FitConfig
    from training.toy_data import make_toy
    from training.toy_models import toy_model
    from training.translation_data import BatchConfig

    return Recipe(
        name=name,
        source_language="en",
        target_languages=("en",),
        read=lambda _: make_toy(task, pairs=pairs, longest=longest),
        needs_data=False,
        vocabulary=64,
        model=lambda vocabulary, output: toy_model(rung, vocabulary, output, dropout=dropout),
        batches=BatchConfig(tokens=400),
        fit=FitConfig(
            epochs=12,
            learning_rate=1e-2 if rung != "transformer" else 5e-3,
            label_smoothing=0.0,
            average_decay=0.9,
            monitor="valid_chrf",
            higher_is_better=True,
        ),
        measured_sources=100,
    )


RECIPES = {
    recipe.__name__: recipe
    for recipe in (
        en_es_rnn,
        en_xx_transformer,
        multi30k_plain,
        multi30k_fixed,
        multi30k_attention,
        multi30k_transformer,
        toy_reverse,
        toy_copy,
        toy_reverse_plain,
        toy_reverse_fixed,
        toy_reverse_lstm,
        toy_reverse_transformer,
    )
}

"""Names runs on made-up sentences, learnt in seconds: each recipe is a function that returns all settings.

It does not know how a run is carried out. Each imports what it needs when it is called, so that a command can list them
without loading torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.training.learning.recipe import Recipe

if TYPE_CHECKING:
    from regard.training.data.toy_data import Task
    from regard.training.recipes.toy_models import Rung


def toy_reverse() -> Recipe:
    """Words backwards, learnt in seconds, to try things out."""
    return _toy("toy_reverse", "reverse", "attention")


def toy_copy() -> Recipe:
    """Words as they are, learnt in seconds, to try things out."""
    return _toy("toy_copy", "copy", "attention")


def toy_reverse_plain() -> Recipe:
    """Up to ten words backwards without attention: long ones go wrong."""
    return _toy("toy_reverse_plain", "reverse", "no_attention", pairs=3000, longest=10, dropout=0.0)


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
    from regard.training.data.toy_data import make_toy
    from regard.training.data.translation_data import BatchConfig
    from regard.training.learning.fit import FitConfig
    from regard.training.recipes.toy_models import toy_model

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
        licence="Apache-2.0",
    )

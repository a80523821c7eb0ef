"""Names the translation runs that can be repeated: each recipe is a function that returns all settings.

It does not know how a run is carried out. Each imports what it needs when it is called, so that a command can list them
without loading torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from regard.training.learning.recipe import GoldAlignments, Recipe

if TYPE_CHECKING:
    from regard.training.families import TrainedModel
    from regard.training.models.rnn import RnnConfig


_TATOEBA_LICENCE = (
    "CC BY 2.0 FR (https://creativecommons.org/licenses/by/2.0/fr/), like the sentences it learnt from: Tatoeba "
    "(https://tatoeba.org) and its contributors, as prepared by https://www.manythings.org/anki"
)
_TATOEBA_LIMITS = (
    "The model has seen short everyday sentences and nothing else: expect poor results on other kinds of text, on "
    "names and numbers that it never met, and on long sentences."
)
_MULTI30K_LICENCE = (
    "for research and education, non-commercial, like Multi30k (Elliott et al. 2016), from which it learnt"
)
_MULTI30K_LIMITS = (
    "The model has seen descriptions of everyday photographs and nothing else: expect poor results on other kinds of "
    "text, on names and numbers that it never met, and on long sentences."
)


def en_es_rnn() -> Recipe:
    """English to Spanish on Tatoeba pairs, recurrent with additive attention."""
    from regard.training.data.corpora import read_tatoeba
    from regard.training.data.translation_data import BatchConfig
    from regard.training.learning.fit import FitConfig
    from regard.training.models.rnn import Rnn, RnnConfig

    return Recipe(
        name="en_es_rnn",
        source_language="en",
        target_languages=("es",),
        read=lambda data: read_tatoeba(data, "es"),
        vocabulary=6000,
        model=lambda vocabulary, output: Rnn(RnnConfig(vocabulary=vocabulary, output=output, dropout=0.15)),
        batches=BatchConfig(tokens=1000, join=0.08, upper=0.004, plain=0.02),
        fit=FitConfig(epochs=9, monitor="valid_chrf", higher_is_better=True),
        alignments=(GoldAlignments(file="alignments/xlwa-en-es/dev.tsv"),),
        licence=_TATOEBA_LICENCE,
        known_limits=_TATOEBA_LIMITS,
    )


def en_xx_transformer() -> Recipe:
    """English to Spanish, French and German on Tatoeba pairs, a Transformer; an epoch has as many of each."""
    from regard.training.data.corpora import read_tatoeba_into
    from regard.training.data.translation_data import BatchConfig
    from regard.training.learning.fit import FitConfig
    from regard.training.models.transformer import Transformer, TransformerConfig

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
            epochs=36, learning_rate=1.5e-3, warm_up=0.03, patience=12, monitor="valid_chrf", higher_is_better=True
        ),
        measured_sources=600,
        alignments=(
            GoldAlignments(file="alignments/xlwa-en-es/dev.tsv", language="es"),
            GoldAlignments(file="alignments/hansards-en-fr/test.tsv", language="fr"),
        ),
        licence=_TATOEBA_LICENCE,
        known_limits=_TATOEBA_LIMITS,
    )


def en_xx_aligned() -> Recipe:
    """English to Spanish, French and German on Tatoeba pairs, a Transformer with one head taught to align.

    It goes on from a run of en_xx_transformer.
    """
    from regard.training.learning.fit import FitConfig
    from regard.training.learning.guidance import GuidanceConfig

    return replace(
        en_xx_transformer(),
        name="en_xx_aligned",
        starts_from="en_xx_transformer",
        # The step that is fed a token knows what to look for. Before, this head agreed best with the links there.
        guidance=GuidanceConfig(layer=0, head=0, lag=1, weight=0.2),
        fit=FitConfig(
            epochs=2,
            learning_rate=7e-5,
            warm_up=0.1,
            average_decay=0.995,  # over fewer updates than 0.999 remembers
            monitor="valid_agreement",
            higher_is_better=True,
            seed=2,  # other batches than the first epochs of the run that it starts from
        ),
    )


def en_xx_everyday() -> Recipe:
    """English to Spanish, French and German, taught what people write: names, figures, marks, slips, long sentences.

    It goes on from a run of en_xx_aligned, or from what was recovered of its bundle, and keeps on teaching its head.
    """
    from regard.training.data.augmentation import AugmentConfig
    from regard.training.learning.fit import FitConfig

    recipe = en_xx_aligned()
    return replace(
        recipe,
        name="en_xx_everyday",
        starts_from="en_xx_aligned",
        plain_text=True,
        batches=replace(
            recipe.batches,
            join=0.2,
            upper=0.03,
            plain=0.05,
            pairs=10_000,
            subword_dropout=0.03,
            augment=AugmentConfig(
                names=0.6,
                figures=0.9,
                marks=0.06,
                apostrophes=0.05,
                typos=0.06,
                titles=0.02,
                more_figures=0.2,
                more_short=0.1,
            ),
        ),
        fit=FitConfig(
            epochs=30,
            learning_rate=3e-4,
            warm_up=0.03,
            average_decay=0.998,
            patience=12,
            monitor="valid_chrf",
            higher_is_better=True,
            seed=3,  # other batches than the runs that it goes back to
        ),
        measured_sources=150,
    )


def multi30k_plain() -> Recipe:
    """Multi30k English to German, recurrent without attention: the first decoder state carries the sentence."""
    from regard.training.models.rnn import Rnn

    return _multi30k(
        "multi30k_plain",
        lambda vocabulary, output: Rnn(_rung(vocabulary, output, context="none")),
        epochs=14,
    )


def multi30k_fixed() -> Recipe:
    """Multi30k English to German, recurrent with one context vector for all steps."""
    from regard.training.models.rnn import Rnn

    return _multi30k(
        "multi30k_fixed",
        lambda vocabulary, output: Rnn(_rung(vocabulary, output, context="fixed")),
        epochs=14,
    )


def multi30k_attention() -> Recipe:
    """Multi30k English to German, recurrent with additive attention."""
    from regard.training.models.rnn import Rnn

    return _multi30k(
        "multi30k_attention",
        lambda vocabulary, output: Rnn(_rung(vocabulary, output, context="attention")),
        epochs=14,
    )


def multi30k_transformer() -> Recipe:
    """Multi30k English to German, the small Transformer of Wu et al. 2021."""
    from regard.training.models.transformer import Transformer, TransformerConfig

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


def multi30k_attention_rewarded() -> Recipe:
    """Multi30k English to German, recurrent with additive attention, rewarded for what it says itself.

    It goes on from a run of multi30k_attention.
    """
    return _rewarded(multi30k_attention())


def multi30k_attention_taught() -> Recipe:
    """Multi30k English to German, recurrent with additive attention, taught by a better model's translations.

    It goes on from a run of multi30k_attention; the teacher is a run of multi30k_transformer or what came of one.
    """
    recipe = multi30k_attention()
    return replace(
        recipe,
        name="multi30k_attention_taught",
        starts_from=recipe.name,
        taught=True,
        batches=replace(recipe.batches, pairs=29_000),  # an epoch is half of what people and the teacher wrote
        fit=replace(recipe.fit, epochs=10, learning_rate=1e-3, warm_up=0.1, seed=2),
    )


def multi30k_transformer_rewarded() -> Recipe:
    """Multi30k English to German, the small Transformer, rewarded for what it says itself.

    It goes on from a run of multi30k_transformer.
    """
    return _rewarded(multi30k_transformer())


def _rewarded(recipe: Recipe) -> Recipe:
    """Return a recipe that goes on from a run of another, by few and small steps."""
    from regard.training.data.translation_data import BatchConfig
    from regard.training.learning.fit import FitConfig

    return replace(
        recipe,
        name=f"{recipe.name}_rewarded",
        starts_from=recipe.name,
        samples=5,
        batches=BatchConfig(tokens=320, pairs=8000),  # five times as many rows are learnt from
        fit=FitConfig(
            epochs=3,
            learning_rate=2e-4,
            average_decay=0.995,  # over fewer updates than 0.999 remembers
            monitor="valid_bleu",
            higher_is_better=True,
            seed=2,  # other batches than the run that it starts from
        ),
    )


def _rung(vocabulary: int, output: int, *, context: Literal["none", "fixed", "attention"]) -> RnnConfig:
    """Return the sizes that all recurrent rungs of the ladder have."""
    from regard.training.models.rnn import RnnConfig

    return RnnConfig(
        vocabulary=vocabulary, output=output, embedding=256, encoder=256, decoder=320, dropout=0.3, context=context
    )


def _multi30k(
    name: str, model: Callable[[int, int], TrainedModel], *, epochs: int, learning_rate: float = 2e-3
) -> Recipe:
    """Return a rung of the ladder: all learn from the same batches, with some sentences joined to long ones."""
    from regard.training.data.corpora import read_multi30k
    from regard.training.data.translation_data import BatchConfig
    from regard.training.learning.fit import FitConfig

    return Recipe(
        name=name,
        source_language="en",
        target_languages=("de",),
        read=read_multi30k,
        vocabulary=6000,
        lower=True,
        model=model,
        batches=BatchConfig(tokens=1600, join=0.1),
        fit=FitConfig(
            epochs=epochs,
            learning_rate=learning_rate,
            monitor="valid_bleu",
            higher_is_better=True,
            patience=10,  # 500 sentences tell apart no less than half a point
        ),
        alignments=(GoldAlignments(file="alignments/bicici-de-en/test.tsv", turned=True),),
        score_as_published=True,
        licence=_MULTI30K_LICENCE,
        known_limits=_MULTI30K_LIMITS,
    )

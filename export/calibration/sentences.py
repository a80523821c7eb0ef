"""Takes from a recipe's corpus what an export needs: sources to calibrate and compare with, tokens of each language."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.export.errors import BundleError
from regard.export.surgery.vocabularies import collect_tokens
from regard.training.data.translation_data import Corpus, Pair
from regard.training.data.vocabulary import BEGIN, END, PAD, UNKNOWN, Vocabulary
from regard.training.learning.checkpoint import Checkpoint
from regard.training.learning.recipe import Recipe
from regard.training.recipes.catalogue import RECIPES


def read_corpus(checkpoint: Checkpoint, data: Path | None) -> Corpus:
    """Read what a checkpoint's recipe learnt from. Raises BundleError if that needs data and there is no folder."""
    recipe = RECIPES[checkpoint.recipe]()
    assert isinstance(recipe, Recipe), recipe.name
    if recipe.needs_data and data is None:
        raise BundleError(
            f"{recipe.name} learnt from data, and int8 is calibrated on some of them: give their folder by --data or "
            "REGARD_DATA."
        )
    return recipe.read(data or Path())


def sample_sources(
    checkpoint: Checkpoint, corpus: Corpus, *, calibration: int, compared: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return ids of so many training sentences to calibrate with and of validation sentences to compare with."""
    rng = random.Random(1)  # noqa: S311  picks sentences, keeps no secret

    def sample(pairs: Sequence[Pair], count: int) -> list[list[int]]:
        return [_source(checkpoint, pair) for pair in rng.sample(pairs, min(count, len(pairs)))]

    return sample(corpus.train, calibration), sample(corpus.valid, compared)


def target_vocabularies(
    vocabulary: Vocabulary, pairs: Sequence[Pair], languages: Sequence[str], *, predictable: int
) -> dict[str, NDArray[np.int64]]:
    """Return the tokens of each target language: those of its training sentences, and every single character.

    With the characters any name can still be spelt. Nothing for a model of one language, which has no others to leave
    out.
    """
    if len(languages) < 2:
        return {}
    characters = [index for piece, index in vocabulary.tokenizer.get_vocab().items() if len(piece.lstrip("▁")) <= 1]
    return collect_tokens(
        {
            language: vocabulary.encode_all([pair.target for pair in pairs if pair.language == language])
            for language in languages
        },
        always=[*characters, END],
        never=(PAD, UNKNOWN, BEGIN),
        predictable=predictable,
    )


def _source(checkpoint: Checkpoint, pair: Pair) -> list[int]:
    """Return a sentence's ids, the last of which tells the language to translate into."""
    *words, _ = checkpoint.vocabulary.encode(pair.source)
    return [*words, checkpoint.vocabulary.end(pair.language)]

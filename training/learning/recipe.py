"""Defines a recipe: all settings of a run, apart from the data themselves.

`regard.training.recipes` has the recipes, `regard.training.runs` carries them out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.training.data.caption_data import CaptionBatchConfig, CaptionCorpus
    from regard.training.data.translation_data import BatchConfig, Corpus
    from regard.training.families import TrainedModel
    from regard.training.learning.fit import FitConfig
    from regard.training.learning.guidance import GuidanceConfig
    from regard.training.models.captioner import Captioner


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldAlignments:
    """Pairs with words linked by people, to score the attention against."""

    file: str  # in the data folder
    language: str = ""  # of their targets, where a model knows several
    turned: bool = False  # whether their targets are the recipe's sources


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
    alignments: tuple[GoldAlignments, ...] = ()
    plain_text: bool = False  # whether bundles ask for plain marks, and for capitals to be read as small letters
    licence: str  # of the weights: the terms of the data that they learn from
    known_limits: str = ""  # sentences for the model card: what the model has seen, and where not to trust it
    starts_from: str | None = None  # the recipe whose finished run it is meant to go on from
    taught: bool = False  # whether it learns from the translations of a finished run as well
    guidance: GuidanceConfig | None = None  # how a head is taught to align
    samples: int = 0  # of each sentence, from whose rewards it learns; 0: it learns from the translations themselves
    score_as_published: bool = False  # on lowercased, tokenised text too


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionRecipe:
    """Everything that a run on pictures with captions depends on, besides the data themselves."""

    name: str
    source_language: str = ""  # pictures have none
    target_languages: tuple[str, ...] = ("en",)
    read: Callable[[Path], CaptionCorpus]  # given the data folder
    needs_data: bool = True
    vocabulary: int  # entries to learn, at most
    model: Callable[[int, int], Captioner]  # given the entries that were learnt and those that can be predicted
    batches: CaptionBatchConfig
    fit: FitConfig
    coverage: float = 0.0  # weight of what asks to look at every cell about once
    self_critical: bool = False  # whether it learns from the rewards of what it says itself
    fine_tuned: int = 0  # last blocks of the backbone that are trained too; 0: none, so that maps are made once
    measured_pictures: int = 500  # validation pictures described after each epoch
    shown: tuple[str, ...] = ("bleu1", "bleu4", "cider")  # figures of those
    licence: str  # of the weights: the terms of the data that they learn from
    known_limits: str = ""  # sentences for the model card: what the model has seen, and where not to trust it
    starts_from: str | None = None  # the recipe whose finished run it is meant to go on from


def describe_terms(recipe: Recipe | CaptionRecipe) -> dict[str, str]:
    """Return what a checkpoint says of a recipe's licence and limits, for the bundles that are made of it."""
    return {"licence": recipe.licence, "known_limits": recipe.known_limits}

"""Draws pictures of a captioner's data, to calibrate its graphs with and to compare them on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from regard.datasets.flickr8k import Described
from regard.export.errors import BundleError
from regard.training.data.caption_data import CaptionCorpus
from regard.training.learning.recipe import CaptionRecipe, Recipe
from regard.training.models.vision import BackboneConfig, Pixels, read_picture


def draw_pictures(
    recipe: Recipe | CaptionRecipe, config: BackboneConfig, data: Path | None, *, calibration: int, compared: int
) -> tuple[list[Pixels], list[Pixels]]:
    """Return so many pictures of the training split and of the validation split, uint8 [height, width, 3] each.

    Raises BundleError where the data are needed and not given.
    """
    if not isinstance(recipe, CaptionRecipe):
        raise BundleError(f"{recipe.name} is no recipe of captions, so that it has no pictures.")
    if recipe.needs_data and data is None:
        raise BundleError(
            f"{recipe.name} learnt from data, and int8 is calibrated on some of them: give their folder by --data or "
            "REGARD_DATA."
        )
    corpus = recipe.read(data or Path())
    rng = random.Random(1)  # noqa: S311  picks pictures, keeps no secret
    return (
        _draw(corpus, corpus.train, config, calibration, rng),
        _draw(corpus, corpus.valid, config, compared, rng),
    )


def _draw(
    corpus: CaptionCorpus, pictures: Sequence[Described], config: BackboneConfig, count: int, rng: random.Random
) -> list[Pixels]:
    drawn = rng.sample(pictures, min(count, len(pictures)))
    return [read_picture(content, config) for content in corpus.load([picture.name for picture in drawn])]

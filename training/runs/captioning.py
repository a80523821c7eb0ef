"""Carries out a caption recipe: vocabulary, feature maps, fit, checkpoints, and figures in the end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor, nn

from regard.datasets.flickr8k import Described
from regard.scoring.captions import PAPER, score_captions
from regard.training.data.caption_data import CaptionCorpus, CaptionData, ReadSource, describe, plain
from regard.training.data.translation_data import SPLITS, Batch
from regard.training.data.vocabulary import PAD, Vocabulary
from regard.training.decoding.evaluate import Figure
from regard.training.decoding.search import SearchConfig, search
from regard.training.families import family_of
from regard.training.learning import checkpoint
from regard.training.learning.caption_reward import CaptionReward
from regard.training.learning.checkpoint_policy import keep_epoch
from regard.training.learning.fit import Hardware, fit
from regard.training.learning.progress import Say, silent
from regard.training.learning.recipe import CaptionRecipe, describe_terms
from regard.training.learning.self_critical import SelfCritical
from regard.training.learning.warm_start import find_start, take_weights
from regard.training.models.captioner import Captioner
from regard.training.models.protocol import SequenceModel
from regard.training.models.vision import Pixels, load_published, read_picture
from regard.training.runs.coverage import uncovered
from regard.training.runs.feature_cache import find_cache, open_cache

NO_REPEAT = 3  # tokens in a row that no caption says twice


def train(
    recipe: CaptionRecipe,
    *,
    data: Path,
    out: Path,
    hardware: Hardware,
    start_from: Path | None = None,
    cache: Path | None = None,
    say: Say = silent,
) -> None:
    """Train by a recipe with the data in one folder and the results in another.

    start_from is a run or a checkpoint that weights and vocabulary are taken from; cache is where feature maps are
    kept, `out`/features if it is not given. For what `out` then holds and what is raised see `translation.train`.
    """
    start = find_start(recipe, out=out, run=start_from)
    say(f"reading the data of {recipe.name}")
    corpus = recipe.read(data)
    if start is None:
        say(f"learning a vocabulary of up to {recipe.vocabulary} subwords from {len(corpus.train)} pictures' captions")
        captions = [plain(caption) for each in corpus.train for caption in each.captions]
        vocabulary, output = Vocabulary.train([], captions, size=recipe.vocabulary, lower=True)
    else:
        vocabulary, output = start.checkpoint.vocabulary, start.checkpoint.model.config.output
    pl.seed_everything(recipe.fit.seed, verbose=False)
    captioner = recipe.model(vocabulary.size, output)
    family_of(captioner)  # refused now, not after the first epoch
    if start is None:
        load_published(captioner.backbone)
    else:
        take_weights(captioner, start.checkpoint)
    trained, read_source = _divide(recipe, captioner, corpus, cache or out / "features", say)
    batches = CaptionData(corpus, vocabulary, recipe.batches, read_source, output=output, seed=recipe.fit.seed)
    measured = corpus.valid[: recipe.measured_pictures]
    provenance = {
        "data": describe(corpus),
        "languages": {"source": recipe.source_language, "targets": recipe.target_languages},
        "batches": asdict(recipe.batches),
        "fit": asdict(recipe.fit),
        "terms": describe_terms(recipe),
        "captions": {
            "coverage": recipe.coverage,
            "fine_tuned": recipe.fine_tuned,
            "self_critical": recipe.self_critical,
        },
        "versions": {"torch": torch.__version__},
        **({"start": start.origin} if start is not None and start.origin is not None else {}),
    }

    def measure(model: Any) -> Mapping[str, float]:
        found = write_captions(model, vocabulary, read_source, measured, _search(recipe, SearchConfig()))
        scores = score_captions(found, [each.captions for each in measured])
        return {f"valid_{score.metric}": score.value for score in scores if score.metric in recipe.shown}

    def keep(model: Any, epoch: int, metrics: Mapping[str, float], best: bool) -> None:
        found = checkpoint.Checkpoint(
            recipe=recipe.name,
            model=captioner,
            vocabulary=vocabulary,
            metrics={"epoch": epoch, **metrics},
            provenance=provenance,
        )
        keep_epoch(out, epoch, found, best=best)

    def penalty(attention: Tensor, batch: Batch) -> Tensor:
        return recipe.coverage * uncovered(attention, batch.target_out != PAD)

    reward = CaptionReward([each.captions for each in corpus.train], vocabulary) if recipe.self_critical else None
    fit(
        trained,
        batches,
        recipe.fit,
        hardware=hardware,
        folder=out,
        measure=measure,
        keep=keep,
        penalty=penalty if recipe.coverage else None,
        critic=None if reward is None else SelfCritical(reward, longest=recipe.batches.longest),
        say=say,
    )


def evaluate(
    recipe: CaptionRecipe, *, data: Path, out: Path, folder: Path, config: SearchConfig, cache: Path | None = None
) -> list[Figure]:
    """Describe the test pictures with a checkpoint and return the figures, of which it gets a copy in its metrics."""
    found = checkpoint.load(folder)
    captioner = found.model
    if not isinstance(captioner, Captioner):
        raise checkpoint.CheckpointError(f"{folder} does not hold a captioner.")
    corpus = recipe.read(data)
    maps = find_cache(cache or out / "features", captioner.backbone, _names(corpus))
    model, read_source = (captioner, _pixels(corpus, captioner)) if maps is None else (captioner.describer, maps.get)
    config = _search(recipe, config)
    captions = write_captions(model, found.vocabulary, read_source, corpus.test, config)
    figures = [
        Figure(
            metric=score.metric,
            value=score.value,
            test_set=f"test split, {len(corpus.test)} pictures, all references of each",
            search=f"beam {config.beam_size}, length penalty {config.length_penalty:g}, "
            f"no {config.no_repeat_ngram} tokens twice",
            signature=score.signature if score.published is None else f"{score.signature}; {PAPER}: {score.published}",
        )
        for score in score_captions(captions, [each.captions for each in corpus.test])
    ]
    metrics = {**found.metrics, "figures": [asdict(figure) for figure in figures]}
    # Behind the link, which has to stay one.
    checkpoint.save(folder.resolve(), replace(found, metrics=metrics))
    return figures


def _search(recipe: CaptionRecipe, config: SearchConfig) -> SearchConfig:
    """Return how captions are searched for, as they are when served."""
    return replace(config, max_length=recipe.batches.longest, no_repeat_ngram=NO_REPEAT)


def write_captions(
    model: SequenceModel[Any, Any],
    vocabulary: Vocabulary,
    read_source: ReadSource,
    pictures: Sequence[Described],
    config: SearchConfig,
    *,
    rows: int = 128,
) -> list[str]:
    """Return the best caption of every picture, `rows` hypotheses at a time."""
    captions: list[str] = []
    size = max(rows // config.beam_size, 1)
    for start in range(0, len(pictures), size):
        source = read_source([picture.name for picture in pictures[start : start + size]]).to(
            model.output.weight.device
        )
        length = torch.full((len(source),), source.shape[1])
        captions.extend(vocabulary.decode(found[0].tokens) for found in search(model, source, length, config))
    return captions


def _divide(
    recipe: CaptionRecipe, captioner: Captioner, corpus: CaptionCorpus, cache: Path, say: Say
) -> tuple[nn.Module, ReadSource]:
    """Return what is trained and what it reads: the describer and kept maps or, if blocks are tuned, all and pixels."""
    captioner.backbone.train_last(recipe.fine_tuned)
    if recipe.fine_tuned:
        return captioner, _pixels(corpus, captioner)
    maps = open_cache(
        cache,
        captioner.backbone.eval(),
        _names(corpus),
        lambda names: _read(corpus, captioner, names),
        say=say,
    )
    return captioner.describer, maps.get


def _pixels(corpus: CaptionCorpus, captioner: Captioner) -> ReadSource:
    return lambda names: torch.from_numpy(np.stack(list(_read(corpus, captioner, names))))  # pyright: ignore[reportUnknownMemberType]  half typed


def _read(corpus: CaptionCorpus, captioner: Captioner, names: Sequence[str]) -> Iterator[Pixels]:
    return (read_picture(content, captioner.backbone.config) for content in corpus.load(names))


def _names(corpus: CaptionCorpus) -> list[str]:
    return [picture.name for split in SPLITS for picture in getattr(corpus, split)]

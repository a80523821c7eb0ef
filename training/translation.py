"""Carries out a translation recipe: vocabulary, data, fit, checkpoints, and figures in the end.

It does not know which model the recipe chose, nor how one learns.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from training import checkpoint
from training.alignment import align, alignment_error_rate, read_alignments
from training.evaluate import Figure, score, score_as_published, translate
from training.fit import Hardware, fit
from training.recipes import Recipe
from training.search import SearchConfig
from training.translation_data import Corpus, Pair, References, TranslationData, describe, group_references
from training.vocabulary import Vocabulary


def train(recipe: Recipe, *, data: Path, out: Path, hardware: Hardware) -> None:
    """Train by a recipe with the data in one folder and the results in another.

    `out` then holds latest/ and best/, which lead to epoch-NN/, curves.svg, log/, and resume/ for going on: the same
    call goes on where an interrupted one was. Raises FileNotFoundError for missing data, ValueError where `out` holds
    a run of another recipe.
    """
    corpus = recipe.read(data)
    out.mkdir(parents=True, exist_ok=True)
    vocabulary, output = _vocabulary(recipe, corpus, out)
    pl.seed_everything(recipe.fit.seed, verbose=False)
    valid = group_references(corpus.valid)
    # Evenly over all lengths and not the first ones: the files are sorted by length.
    measured = valid[:: max(len(valid) // recipe.measured_sources, 1)][: recipe.measured_sources]
    provenance = {
        "data": describe(corpus),
        "languages": {"source": recipe.source_language, "targets": recipe.target_languages},
        "batches": asdict(recipe.batches),
        "fit": asdict(recipe.fit),
        "versions": {"torch": torch.__version__},
    }

    def measure(model: Any) -> Mapping[str, float]:
        texts = translate(model, vocabulary, measured, SearchConfig())
        figures = score(texts, measured, test_set="", search="", lower=recipe.lower)
        return {f"valid_{figure.metric}": figure.value for figure in figures if figure.metric != "exact"}

    def keep(model: Any, epoch: int, metrics: Mapping[str, float], best: bool) -> None:
        folder = out / f"epoch-{epoch:02}"
        found = checkpoint.Checkpoint(
            recipe=recipe.name,
            model=model,
            vocabulary=vocabulary,
            metrics={"epoch": epoch, **metrics},
            provenance=provenance,
        )
        checkpoint.save(folder, found)
        for name in ("latest", *["best"] * best):
            checkpoint.point(out / name, folder)
        kept = {(out / name).resolve() for name in ("latest", "best")}
        for old in out.glob("epoch-*"):
            if old.resolve() not in kept:
                shutil.rmtree(old)

    fit(
        recipe.model(vocabulary.size, output),
        TranslationData(corpus, vocabulary, recipe.batches, output=output, seed=recipe.fit.seed),
        recipe.fit,
        hardware=hardware,
        folder=out,
        measure=measure,
        keep=keep,
    )


def evaluate(recipe: Recipe, *, data: Path, folder: Path, config: SearchConfig) -> list[Figure]:
    """Translate the test sets with a checkpoint, align gold pairs where the recipe names some, and return the figures.

    The figures are also written into the checkpoint, as metrics["figures"].
    """
    found = checkpoint.load(folder)
    corpus = recipe.read(data)
    figures: list[Figure] = []
    for name, pairs in (("test split", corpus.test), *corpus.further_tests.items()):
        for language in dict.fromkeys(pair.language for pair in pairs):
            chosen = [pair for pair in pairs if pair.language == language]
            figures.extend(_figures(found, recipe, chosen, name + f" into {language}" * bool(language), config))
    if recipe.alignments is not None:
        gold = read_alignments(data / recipe.alignments, turned=recipe.alignments_turned)
        language = recipe.target_languages[0] if len(recipe.target_languages) > 1 else ""
        links = [align(found.model, found.vocabulary, pair, language=language) for pair in gold]
        # A model that looks at nothing links nothing.
        if any(links):
            figures.append(
                Figure(
                    metric="aer",
                    value=round(100 * alignment_error_rate(links, gold), 4),
                    test_set=f"{recipe.alignments}, {len(gold)} pairs",
                    search="led through the reference, each target word linked to the source word most looked at",
                    signature="Och and Ney 2003, percent",
                )
            )
    metrics = {**found.metrics, "figures": [asdict(figure) for figure in figures]}
    # Behind the link, which has to stay one.
    checkpoint.save(folder.resolve(), replace(found, metrics=metrics))
    return figures


def _figures(
    found: checkpoint.Checkpoint, recipe: Recipe, pairs: Sequence[Pair], name: str, config: SearchConfig
) -> list[Figure]:
    """Return the figures for pairs of one test set and language."""
    grouped = group_references(pairs)
    search = f"beam {config.beam_size}, length penalty {config.length_penalty:g}"
    translated = translate(found.model, found.vocabulary, grouped, config)
    translations = {one.source: text for one, text in zip(grouped, translated, strict=True)}
    single = [References(pair.source, (pair.target,)) for pair in pairs]
    each = [translations[pair.source] for pair in pairs]
    test_set = f"{name}, {len(single)} pairs, one reference each"
    figures = score(each, single, test_set=test_set, search=search, lower=recipe.lower)
    if len(grouped) < len(single):
        whole = f"{name}, {len(grouped)} sources, all references of each"
        figures += score(translated, grouped, test_set=whole, search=search, lower=recipe.lower)
    if recipe.score_as_published:
        language = recipe.target_languages[0]
        figures.append(score_as_published(each, single, language, test_set=test_set, search=search))
    return figures


def _vocabulary(recipe: Recipe, corpus: Corpus, out: Path) -> tuple[Vocabulary, int]:
    """Return the vocabulary, that of an earlier part of the run if any, and how many entries can be predicted."""
    if (out / "latest").exists():
        found = checkpoint.load(out / "latest")
        if found.recipe != recipe.name:
            raise ValueError(f"{out} holds a run of {found.recipe}, so {recipe.name} cannot go on there.")
        return found.vocabulary, found.model.config.output
    several = len(recipe.target_languages) > 1
    return Vocabulary.train(
        # Each sentence once, however many translations it has.
        list(dict.fromkeys(pair.source for pair in corpus.train)),
        [pair.target for pair in corpus.train],
        size=recipe.vocabulary,
        alphabet=recipe.alphabet,
        lower=recipe.lower,
        languages=recipe.target_languages if several else (),
    )

"""Carries out a translation recipe: vocabulary, data, fit, checkpoints, and figures in the end."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from regard.scoring.alignments import Links, alignment_error_rate
from regard.training.data.translation_data import Corpus, Pair, References, TranslationData, describe, group_references
from regard.training.data.vocabulary import Vocabulary
from regard.training.decoding.alignment import Heads, align_by, read_alignments
from regard.training.decoding.evaluate import Figure, score, score_as_published, translate
from regard.training.decoding.search import SearchConfig
from regard.training.families import TrainedModel, family_of
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint_policy import keep_epoch
from regard.training.learning.distillation import TeacherError, teach
from regard.training.learning.fit import Hardware, fit
from regard.training.learning.guidance import Guidance, learn_guidance
from regard.training.learning.progress import Say, silent
from regard.training.learning.recipe import GoldAlignments, Recipe, describe_terms
from regard.training.learning.self_critical import SelfCritical
from regard.training.learning.translation_reward import TranslationReward
from regard.training.learning.warm_start import find_start, take_weights


def train(
    recipe: Recipe,
    *,
    data: Path,
    out: Path,
    hardware: Hardware,
    start_from: Path | None = None,
    teacher: Path | None = None,
    say: Say = silent,
) -> None:
    """Train by a recipe with the data in one folder and the results in another.

    start_from is a run or a checkpoint that weights and vocabulary are taken from, teacher one whose translations are
    learnt from where the recipe says so. `out` then holds latest/ and best/, which lead to epoch-NN/, curves.svg, log/,
    a teacher's translations in taught.jsonl, and resume/ for going on: the same call goes on where an interrupted one
    was. Raises FileNotFoundError for missing data or a missing checkpoint, ValueError where `out` holds a run of
    another recipe, start or teacher, where the recipe's model belongs to no family, and where the weights to start from
    or the teacher do not fit. `say` gets a line for each thing that takes a while.
    """
    if teacher is not None and not recipe.taught:
        raise TeacherError(f"{recipe.name} learns from no other model: leave out --teacher.")
    start = find_start(recipe, out=out, run=start_from)
    say(f"reading the data of {recipe.name}")
    corpus = recipe.read(data)
    if start is None:
        say(f"learning a vocabulary of up to {recipe.vocabulary} subwords from {len(corpus.train)} pairs")
        vocabulary, output = _learn_vocabulary(recipe, corpus)
    else:
        vocabulary, output = start.checkpoint.vocabulary, start.checkpoint.model.config.output
    pl.seed_everything(recipe.fit.seed, verbose=False)
    model = recipe.model(vocabulary.size, output)
    family_of(model)  # refused now, not after the first epoch
    if start is not None and start.origin is not None:
        take_weights(model, start.checkpoint)
    taught = teach(recipe, corpus.train, out=out, teacher=teacher) if recipe.taught else None
    if taught is not None:
        corpus = replace(corpus, train=[*corpus.train, *taught.pairs])
    say(f"encoding {len(corpus.train)} pairs")
    batches = TranslationData(corpus, vocabulary, recipe.batches, output=output, seed=recipe.fit.seed)
    if recipe.guidance is not None:
        say("learning which words translate which, for the head that is taught to align")
    guide = _guide(recipe, model, batches, vocabulary)
    heads = () if guide is None else ((guide.config.layer, guide.config.head),)
    out.mkdir(parents=True, exist_ok=True)
    valid = group_references(corpus.valid)
    # Evenly over all lengths and not the first ones: the files are sorted by length.
    measured = valid[:: max(len(valid) // recipe.measured_sources, 1)][: recipe.measured_sources]
    provenance = {
        "data": describe(corpus),
        "languages": {"source": recipe.source_language, "targets": recipe.target_languages},
        "batches": asdict(recipe.batches),
        "fit": asdict(recipe.fit),
        "terms": describe_terms(recipe),
        "versions": {"torch": torch.__version__},
        **({"guidance": asdict(recipe.guidance)} if recipe.guidance else {}),
        **({"samples": recipe.samples} if recipe.samples else {}),
        **({"teacher": taught.origin} if taught is not None else {}),
        **({"start": start.origin} if start is not None and start.origin is not None else {}),
    }

    def measure(model: Any) -> Mapping[str, float]:
        texts = translate(model, vocabulary, measured, SearchConfig())
        figures = score(texts, measured, test_set="", search="", lower=recipe.lower)
        return {f"valid_{figure.metric}": figure.value for figure in figures if figure.metric != "exact"}

    def keep(model: Any, epoch: int, metrics: Mapping[str, float], best: bool) -> None:
        found = checkpoint.Checkpoint(
            recipe=recipe.name,
            model=model,
            vocabulary=vocabulary,
            metrics={"epoch": epoch, **metrics},
            provenance=provenance,
            alignment_heads=heads,
            alignment_lag=0 if guide is None else guide.config.lag,
        )
        keep_epoch(out, epoch, found, best=best)

    critic = None
    if recipe.samples:
        critic = SelfCritical(TranslationReward(vocabulary), longest=recipe.batches.longest, times=recipe.samples)
    fit(
        model,
        batches,
        recipe.fit,
        hardware=hardware,
        folder=out,
        measure=measure,
        keep=keep,
        guide=guide,
        critic=critic,
        say=say,
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
    # A model that looks at nothing links nothing.
    if any(found.model.attention_axes):
        for gold in recipe.alignments:
            figures.extend(_alignment_figures(found, gold, data))
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


def _alignment_figures(found: checkpoint.Checkpoint, gold: GoldAlignments, data: Path) -> list[Figure]:
    """Return the error rate of the average of all heads and, where some were trained to align, that of these.

    There is none of a model without attention.
    """
    pairs = read_alignments(data / gold.file, turned=gold.turned)
    if not all(found.model.attention_axes):
        return []

    def links(heads: Heads, lag: int) -> list[Links]:
        return [
            align_by(found.model, found.vocabulary, pair, [heads], language=gold.language, lag=lag)[0] for pair in pairs
        ]

    kinds: list[tuple[str, str, Heads, int]] = [("aer", "all layers and heads averaged", (), 0)]
    if found.alignment_heads:
        named = " and ".join(f"layer {layer}, head {head}" for layer, head in found.alignment_heads)
        when = ", in the step that is fed the word" * found.alignment_lag
        kinds.append(("aer_guided", f"{named}, counted from 0{when}", found.alignment_heads, found.alignment_lag))
    return [
        Figure(
            metric=metric,
            value=round(100 * alignment_error_rate(links(heads, lag), pairs), 4),
            test_set=f"{gold.file}, {len(pairs)} pairs",
            search=f"led through the reference, each target word linked to the source word most looked at; {which}",
            signature="Och and Ney 2003, percent",
        )
        for metric, which, heads, lag in kinds
    ]


def _guide(recipe: Recipe, model: TrainedModel, data: TranslationData, vocabulary: Vocabulary) -> Guidance | None:
    """Return what teaches a head to align, if the recipe wants one; ValueError where the model has no such head."""
    config = recipe.guidance
    if config is None:
        return None
    layers, heads = model.attention_axes
    if config.layer >= layers or config.head >= heads:
        raise ValueError(
            f"{recipe.name} teaches layer {config.layer}, head {config.head} to align, but the model has {layers} "
            f"layers and {heads} heads of attention."
        )
    return learn_guidance(data.examples, config, vocabulary=vocabulary.size)


def _learn_vocabulary(recipe: Recipe, corpus: Corpus) -> tuple[Vocabulary, int]:
    """Return a new vocabulary and how many of its entries can be predicted."""
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

"""Measures the rungs of the ladder on the same sentences: quality, quality by length, pace, alignment, attention."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch

from regard.scoring.alignments import alignment_error_rate
from regard.training.data.translation_data import Corpus, Pair, References, TranslationData
from regard.training.decoding.alignment import AlignedPair, align
from regard.training.decoding.evaluate import Figure, score, score_as_published
from regard.training.decoding.search import SearchConfig
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.learning.recipe import Recipe
from regard.training.recipes.catalogue import TRANSLATION_RECIPES
from regard.training.studies.ladder.attention import CHOICES, Choice, look, picture
from regard.training.studies.ladder.lengths import (
    BUCKETS,
    MOST_PARTS,
    Counts,
    Joined,
    bucket_of,
    count,
    estimate,
    estimate_difference,
    join_neighbours,
)
from regard.training.studies.ladder.pace import epoch_of, read_run, side_by_side, target_tokens
from regard.training.studies.ladder.report import LengthFigure, Pace, Picture, RungReport
from regard.training.studies.ladder.rungs import RUNGS, rung_of
from regard.training.studies.ladder.translations import Translations, digest_of

# Told what is being done.
Tell: TypeAlias = Callable[[str], None]

_FIRST_TEST = "test_2016_flickr"
_PICTURED = "multi30k_attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRung:
    """A rung that was trained, ready to be measured."""

    recipe: Recipe
    folder: Path  # of the run
    found: Checkpoint
    digest: str


class _Trial(NamedTuple):
    """What all rungs are tried on."""

    tests: Mapping[str, Sequence[Pair]]
    joined: Mapping[int, Sequence[Joined]]  # the first test set, by how many sentences are read at a time
    gold: Sequence[AlignedPair]
    search: SearchConfig


def checkpoint_folder(runs: Path, recipe: str) -> Path:
    """Return where a rung's checkpoint is looked for."""
    return runs / recipe / "best"


def missing_from(runs: Path) -> list[str]:
    """Return the recipes of the ladder that have no checkpoint."""
    return [rung.recipe for rung in RUNGS if not (checkpoint_folder(runs, rung.recipe) / "config.json").is_file()]


def climb(runs: Path, recipes: Sequence[str]) -> list[MeasuredRung]:
    """Load the checkpoints of rungs.

    Raises CheckpointError for one that is none, ValueError for one of another recipe or vocabulary than the others'.
    """
    climbed: list[MeasuredRung] = []
    for name in recipes:
        folder = checkpoint_folder(runs, name)
        found = checkpoint.load(folder)
        if found.recipe != name:
            raise ValueError(f"{folder} holds a model of {found.recipe}, but the rung {name} is looked for there.")
        if climbed and climbed[0].found.vocabulary.digest != found.vocabulary.digest:
            raise ValueError(
                f"{name} and {climbed[0].recipe.name} have different vocabularies, so that they cannot be compared."
            )
        climbed.append(
            MeasuredRung(recipe=TRANSLATION_RECIPES[name](), folder=runs / name, found=found, digest=digest_of(folder))
        )
    return climbed


def measure(
    climbed: Sequence[MeasuredRung], corpus: Corpus, gold: Sequence[AlignedPair], search: SearchConfig, tell: Tell
) -> tuple[RungReport, ...]:
    """Measure all rungs, given in order of the ladder; tell is called with what is being done."""
    tests = test_sets(corpus)
    joined = {parts: join_neighbours(corpus.test, parts) for parts in range(1, MOST_PARTS + 1)}
    trial = _Trial(tests, joined, gold, search)
    tell("how fast the rungs learn, in turn on the same batches")
    first = climbed[0]
    data = TranslationData(
        corpus,
        first.found.vocabulary,
        first.recipe.batches,
        output=first.found.model.config.output,
        seed=first.recipe.fit.seed,
    )
    epoch = epoch_of(data)
    paces = side_by_side([one.found.model for one in climbed], epoch)
    reports: list[RungReport] = []
    before: Counts | None = None
    for one, pace in zip(climbed, paces, strict=True):
        report, before = _measure(one, trial, before, (pace, target_tokens(epoch)), tell)
        reports.append(report)
    return tuple(reports)


def test_sets(corpus: Corpus) -> Mapping[str, Sequence[Pair]]:
    """Return the test sets by name, that of the lengths first."""
    return {_FIRST_TEST: corpus.test, **corpus.further_tests}


def attends(found: Checkpoint) -> bool:
    """Return whether a model looks at anything."""
    with torch.inference_mode():
        source = torch.tensor([found.vocabulary.encode("a")])
        _, attention = found.model.forward(source, torch.tensor([source.shape[1]]), source[:, :1])
    return attention.numel() > 0 and bool(attention.any())


def pictures(
    climbed: Sequence[MeasuredRung], search: SearchConfig, choices: Sequence[Choice] = CHOICES
) -> tuple[Picture, ...]:
    """Return what the rung with additive attention looks at in the chosen sentences; none without that rung."""
    for one in climbed:
        if one.recipe.name == _PICTURED:
            looks = look(one.found, [choice.source for choice in choices], search)
            return tuple(picture(choice, found) for choice, found in zip(choices, looks, strict=True))
    return ()


def _measure(
    one: MeasuredRung, trial: _Trial, before: Counts | None, pace: tuple[float, int], tell: Tell
) -> tuple[RungReport, Counts]:
    """Measure a rung, given the counts of the one before on the first test set and its pace and tokens an epoch."""
    name = rung_of(one.recipe.name).name
    translations = Translations(one.folder / "ladder-translations.json", one.found, one.digest, trial.search)

    def made(sources: Sequence[str], what: str) -> list[str]:
        return translations.of(sources, lambda done, of: tell(f"{name}: {what}, {done} of {of} translated"))

    figures: list[Figure] = []
    counted: dict[str, Counts] = {}
    for test, pairs in trial.tests.items():
        texts = made([pair.source for pair in pairs], test)
        figures += _figures(texts, pairs, test, one.recipe, trial.search)
        counted[test] = count(texts, [pair.target for pair in pairs])
    joined: dict[int, list[tuple[Joined, str]]] = {}
    for parts, groups in trial.joined.items():
        texts = made([group.pair.source for group in groups], f"{parts} sentences at a time")
        joined[parts] = list(zip(groups, texts, strict=True))
    tell(f"{name}: scores, intervals, alignments")
    logged = read_run(one.folder)
    epochs = max(logged.epochs, int(one.found.metrics["epoch"]))
    side, tokens = pace
    seconds = None if logged.tokens_per_second is None else epochs * tokens / logged.tokens_per_second
    report = RungReport(
        recipe=one.recipe.name,
        parameters=sum(parameter.numel() for parameter in one.found.model.parameters()),
        epochs=epochs,
        planned_epochs=int(one.found.provenance["fit"]["epochs"]),
        best_epoch=int(one.found.metrics["epoch"]),
        seed=int(one.found.provenance["fit"]["seed"]),
        tokens_per_epoch=tokens,
        digest=one.digest,
        pace=Pace(
            logged=None if logged.tokens_per_second is None else round(logged.tokens_per_second),
            side_by_side=round(side),
            minutes=None if seconds is None else round(seconds / 60, 1),
        ),
        figures=tuple(figures),
        bleu={test: estimate(counts) for test, counts in counted.items()},
        gain=None if before is None else estimate_difference(counted[_FIRST_TEST], before),
        by_length=_by_length(joined),
        by_parts=tuple(_length_figure(str(parts), found) for parts, found in joined.items()),
        alignment_error=_alignment_error(one.found, trial.gold),
        loss_curve=_curve(tokens, logged.validation_loss),
    )
    return report, counted[_FIRST_TEST]


def _curve(tokens: int, values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Return target tokens seen with the value after each epoch."""
    return tuple((float(tokens * epoch), value) for epoch, value in enumerate(values, start=1))


def _figures(
    texts: Sequence[str], pairs: Sequence[Pair], test: str, recipe: Recipe, search: SearchConfig
) -> list[Figure]:
    references = [References(pair.source, (pair.target,)) for pair in pairs]
    how = f"beam {search.beam_size}, length penalty {search.length_penalty:g}"
    figures = score(texts, references, test_set=test, search=how, lower=recipe.lower)
    published = score_as_published(texts, references, recipe.target_languages[0], test_set=test, search=how)
    return [*figures, published]


def _by_length(joined: Mapping[int, Sequence[tuple[Joined, str]]]) -> tuple[LengthFigure, ...]:
    """Return BLEU by length of the source: sentences as they are and joined ones in the same buckets."""
    buckets: dict[tuple[int, int], list[tuple[Joined, str]]] = {bucket: [] for bucket in BUCKETS}
    for parts, found in joined.items():
        for group, text in found:
            bucket = bucket_of(group.pair.source)
            # What is left over at the end of a text stands among the shorter groups already.
            if bucket is not None and group.parts == parts:
                buckets[bucket].append((group, text))
    return tuple(_length_figure(f"{low}-{high}", found) for (low, high), found in buckets.items() if found)


def _length_figure(label: str, found: Sequence[tuple[Joined, str]]) -> LengthFigure:
    counts = count([text for _, text in found], [group.pair.target for group, _ in found])
    return LengthFigure(
        label=label,
        sources=len(found),
        joined=sum(group.parts > 1 for group, _ in found),
        words=round(statistics.mean(len(group.pair.source.split()) for group, _ in found), 1),
        bleu=estimate(counts),
    )


def _alignment_error(found: Checkpoint, gold: Sequence[AlignedPair]) -> float | None:
    """Return the percentage of Och and Ney 2003; None for a model that looks at nothing."""
    if not gold or not attends(found):
        return None
    links = [align(found.model, found.vocabulary, pair) for pair in gold]
    return round(100 * alignment_error_rate(links, gold), 2)

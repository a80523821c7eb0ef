"""Has a server translate and align test sets, and scores what it answers.

It does not know where the test sets come from or how figures are shown.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.client import AttentionQuery, Client, InvalidRequest
from regard.client.batching.pipeline import in_order
from regard.loadtest.accuracy.test_sets import TestSet, group_references
from regard.loadtest.accuracy.word_links import GoldPair, link_words, word_of_each, words_of
from regard.loadtest.base.progress import Progress
from regard.scoring.alignments import Links, alignment_error_rate

TEXTS_PER_CALL = 32
CALLS_IN_FLIGHT = 4
CALL_SECONDS = 300.0
ATTENTION = AttentionQuery(granularity="subword", reduction="alignment", encoding="float32")

Item = TypeVar("Item")


class Figure(NamedTuple):
    """A figure with what one must know to compare it."""

    metric: str
    value: float
    test_set: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Whom to ask, and how to search."""

    model: str
    version: str
    beam_size: int | None
    length_penalty: float | None = None
    target_language: str | None = None

    @property
    def told(self) -> str:
        """How, in words."""
        beam = "the server's default search" if self.beam_size is None else f"beam {self.beam_size}"
        return beam if self.length_penalty is None else f"{beam}, length penalty {self.length_penalty:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured.

    Attributes:
        model: who answered.
        search: how.
        figures: those of one reference first.
        texts_per_second: translated, with the calls that this program keeps in flight.
        failures: texts without an answer, with the reason; figures count them as empty.
    """

    model: str
    search: str
    figures: tuple[Figure, ...]
    texts_per_second: float | None
    failures: tuple[str, ...]


def measure(client: Client, search: Search, *, pairs: TestSet | None, gold: Sequence[GoldPair]) -> Result:
    """Translate and align. Raises RegardCallError where a whole call fails."""
    figures: list[Figure] = []
    failures: list[str] = []
    model = ""
    per_second = None
    if pairs is not None:
        distinct = tuple(dict.fromkeys(pairs.sources))
        began = time.monotonic()
        texts, model, failed = translate_all(client, search, distinct)
        per_second = len(distinct) / max(time.monotonic() - began, 1e-9)
        failures += failed
        figures += score(pairs, texts)
        if len(distinct) < len(pairs.sources):
            figures += score(group_references(pairs), texts)
    if gold:
        aligned = _each("align    ", gold, partial(_align, client, search))
        failures += [f"{pair.source[:60]!r}: {a.failure}" for pair, a in zip(gold, aligned, strict=True) if a.failure]
        model = model or next((answer.model for answer in aligned), "")
        rate = 100 * alignment_error_rate([answer.links for answer in aligned], gold)
        signature = "each target word linked to the source word most looked at, target given"
        figures.append(Figure("aer", rate, f"{len(gold)} aligned pairs", signature))
    return Result(
        model=model, search=search.told, figures=tuple(figures), texts_per_second=per_second, failures=tuple(failures)
    )


class Translated(NamedTuple):
    """Translations by their source, who made them, and which texts have none and why; these are empty."""

    texts: dict[str, str]
    model: str
    failures: list[str]


def translate_all(client: Client, search: Search, sources: Sequence[str]) -> Translated:
    """Translate distinct texts. Raises RegardCallError where a whole call fails."""
    answers = dict(zip(sources, _each("translate", sources, partial(_translate, client, search)), strict=True))
    return Translated(
        {source: answer.text for source, answer in answers.items()},
        next((answer.model for answer in answers.values()), ""),
        [f"{source[:60]!r}: {answer.failure}" for source, answer in answers.items() if answer.failure],
    )


def score(pairs: TestSet, translations: dict[str, str]) -> list[Figure]:
    """BLEU and chrF of the translations of a test set, in which texts may have different numbers of references."""
    most = max(len(references) for references in pairs.references)
    streams = [[r[i] if i < len(r) else None for r in pairs.references] for i in range(most)]
    hypotheses = [translations[source] for source in pairs.sources]
    figures: list[Figure] = []
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        value = float(metric.corpus_score(hypotheses, streams).score)  # pyright: ignore[reportArgumentType] - None is what sacreBLEU takes for "no such reference"
        counted = f"{pairs.name}, {len(pairs.sources)} texts"
        figures.append(Figure(name, value, counted, str(metric.get_signature())))
    return figures


class _Answer(NamedTuple):
    text: str = ""
    links: Links = frozenset()
    model: str = ""
    failure: str = ""


def _translate(client: Client, search: Search, texts: Sequence[str]) -> list[_Answer]:
    answers = client.translate(
        texts,
        timeout=CALL_SECONDS,
        model=search.model,
        version=search.version,
        beam_size=search.beam_size,
        length_penalty=search.length_penalty,
        target_language=search.target_language,
    )
    return [
        _Answer(
            text=answer.text,
            model=f"{answer.model.name} {answer.model.version} ({answer.model.profile})",
            failure=answer.error.message if answer.error else "",
        )
        for answer in answers
    ]


def _align(client: Client, search: Search, pairs: Sequence[GoldPair]) -> list[_Answer]:
    asked = [(pair.source, pair.target) for pair in pairs]
    scores = client.score(
        asked,
        timeout=CALL_SECONDS,
        model=search.model,
        version=search.version,
        target_language=search.target_language,
        attention=ATTENTION,
    )
    answers: list[_Answer] = []
    for pair, found in zip(pairs, scores, strict=True):
        model = f"{found.model.name} {found.model.version} ({found.model.profile})"
        if found.segment is None:
            answers.append(_Answer(model=model, failure=found.error.message if found.error else "no answer"))
            continue
        [hypothesis] = found.segment.hypotheses
        if hypothesis.attention is None:
            answers.append(_Answer(model=model, failure="the model has no attention"))
            continue
        sources = word_of_each([token.span for token in found.segment.source_tokens], words_of(pair.source))
        targets = word_of_each([token.span for token in hypothesis.tokens], words_of(pair.target))
        answers.append(_Answer(links=link_words(hypothesis.attention.weights, sources, targets), model=model))
    return answers


def _alone_if_alone(work: Callable[[Sequence[Item]], list[_Answer]], items: Sequence[Item]) -> list[_Answer]:
    """Of many texts a bad one fails alone; where it is the only one, the call does."""
    try:
        return work(items)
    except InvalidRequest as error:
        if len(items) > 1:
            raise
        return [_Answer(failure=error.message)]


def _each(label: str, items: Sequence[Item], work: Callable[[Sequence[Item]], list[_Answer]]) -> list[_Answer]:
    progress = Progress(label, len(items))
    calls = [items[start : start + TEXTS_PER_CALL] for start in range(0, len(items), TEXTS_PER_CALL)]
    began = time.monotonic()
    answers: list[_Answer] = []
    for answered in in_order(calls, partial(_alone_if_alone, work), in_flight=CALLS_IN_FLIGHT):
        answers += answered
        speed = len(answers) / max(time.monotonic() - began, 1e-9)
        progress.show(len(answers), f"{len(answers)} of {len(items)}, {speed:.0f}/s")
    progress.close()
    return answers

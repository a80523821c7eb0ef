"""`regard bench accuracy`: how well a server translates and aligns, by sacreBLEU and the alignment error rate.

It does not know models: it asks the server as any client does.
"""

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from client import AttentionQuery, Client, RegardCallError
from client.pipeline import in_order
from loadtest.alignment_error import GoldPair, Links, alignment_error_rate, link_words, word_of_each, words_of
from loadtest.processes import Served, StartError, served, translator
from loadtest.progress import Progress
from loadtest.test_sets import TestSet, group_references, read_alignments, read_parallel, read_tatoeba
from loadtest.text_table import text_table

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


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    what = parser.add_argument_group("the test set")
    what.add_argument("--source", type=Path, metavar="FILE", help="one text a line")
    what.add_argument(
        "--reference", type=Path, metavar="FILE", action="append", default=[], help="its translations; may be repeated"
    )
    what.add_argument(
        "--tatoeba",
        type=Path,
        metavar="DIR",
        nargs="?",
        const=Path(),
        help="Tatoeba English-Spanish instead, with one and with all references; without DIR from REGARD_DATA",
    )
    what.add_argument("--split", default="test", help="of Tatoeba: train, valid or test (test)")
    what.add_argument(
        "--alignments",
        type=Path,
        metavar="FILE",
        help="gold links i-j (sure) or i?j (possible): source<TAB>target<TAB>links, or links alone beside --source",
    )
    what.add_argument("--limit", type=int, metavar="N", help="the first N texts and pairs only")
    whom = parser.add_argument_group("the model")
    whom.add_argument("--model", default="", metavar="NAME[/VERSION]", help="the server's default without this")
    whom.add_argument("--address", metavar="HOST:PORT", help="a running server; without this a private one is started")
    whom.add_argument("--models", type=Path, metavar="DIR", action="append", default=[], help="of the private server")
    whom.add_argument("--profile", default="", help="graphs that the private server runs: portable, cpu, cuda")
    whom.add_argument("--beam", type=int, metavar="N", help="hypotheses kept; 1 is greedy search")
    parser.add_argument("--json", action="store_true", help="print JSON with keys bleu, chrf and aer, from 0 to 100")


def command(arguments: Namespace) -> int:
    """Measure and print; 1 if data, server or an answer is missing, 2 for options that do not go together."""
    if problem := _wrong(arguments):
        sys.stderr.write(f"regard bench accuracy: {problem}\n")
        return 2
    name, _, version = arguments.model.partition("/")
    search = Search(model=name, version=version, beam_size=arguments.beam)
    try:
        pairs, gold = _read(arguments)
        with _server(arguments) as server, Client(server.address if server else arguments.address) as client:
            client.wait_ready()
            result = measure(client, search, pairs=pairs, gold=gold)
    except (OSError, ValueError, StartError, RegardCallError) as problem:
        sys.stderr.write(f"regard bench accuracy: {problem}\n")
        return 1
    sys.stdout.write(json.dumps(as_json(result), indent=2) + "\n" if arguments.json else as_text(result))
    for line in result.failures:
        sys.stderr.write(f"not answered: {line}\n")
    return 1 if result.failures else 0


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
        translations = _each("translate", distinct, partial(_translate, client, search))
        per_second = len(distinct) / max(time.monotonic() - began, 1e-9)
        answers = dict(zip(distinct, translations, strict=True))
        failures += [f"{source[:60]!r}: {a.failure}" for source, a in answers.items() if a.failure]
        model = next((answer.model for answer in translations), "")
        texts = {source: answer.text for source, answer in answers.items()}
        figures += score(pairs, texts)
        if len(distinct) < len(pairs.sources):
            figures += score(group_references(pairs), texts)
    if gold:
        aligned = _each("align    ", gold, partial(_align, client, search))
        failures += [f"{pair.source[:60]!r}: {a.failure}" for pair, a in zip(gold, aligned, strict=True) if a.failure]
        model = model or next((answer.model for answer in aligned), "")
        rate = alignment_error_rate([answer.links for answer in aligned], gold)
        signature = "each target word linked to the source word most looked at, target given"
        figures.append(Figure("aer", rate, f"{len(gold)} aligned pairs", signature))
    how = "the server's default search" if search.beam_size is None else f"beam {search.beam_size}"
    return Result(
        model=model, search=how, figures=tuple(figures), texts_per_second=per_second, failures=tuple(failures)
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


def as_json(result: Result) -> dict[str, Any]:
    """The first figure of each metric by its name, and all with their signatures."""
    first: dict[str, float] = {}
    for figure in result.figures:
        first.setdefault(figure.metric, round(figure.value, 4))
    return {
        **first,
        "figures": [{**figure._asdict(), "value": round(figure.value, 4)} for figure in result.figures],
        "model": result.model,
        "search": result.search,
        "texts_per_second": result.texts_per_second,
        "failures": list(result.failures),
    }


def as_text(result: Result) -> str:
    """A table for people."""
    names = {"bleu": "BLEU", "chrf": "chrF", "aer": "AER %"}
    rows = [(names[f.metric], f"{f.value:.2f}", f.test_set, f.signature) for f in result.figures]
    speed = "" if result.texts_per_second is None else f", {result.texts_per_second:.1f} texts/s"
    return f"{result.model}, {result.search}{speed}\n" + text_table(("", "value", "test set", "signature"), rows)


class _Answer(NamedTuple):
    text: str = ""
    links: Links = frozenset()
    model: str = ""
    failure: str = ""


def _translate(client: Client, search: Search, texts: Sequence[str]) -> list[_Answer]:
    answers = client.translate(
        texts, timeout=CALL_SECONDS, model=search.model, version=search.version, beam_size=search.beam_size
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
    scores = client.score(asked, timeout=CALL_SECONDS, model=search.model, version=search.version, attention=ATTENTION)
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


def _each(label: str, items: Sequence[Item], work: Callable[[Sequence[Item]], list[_Answer]]) -> list[_Answer]:
    progress = Progress(label, len(items))
    calls = [items[start : start + TEXTS_PER_CALL] for start in range(0, len(items), TEXTS_PER_CALL)]
    began = time.monotonic()
    answers: list[_Answer] = []
    for answered in in_order(calls, work, in_flight=CALLS_IN_FLIGHT):
        answers += answered
        speed = len(answers) / max(time.monotonic() - began, 1e-9)
        progress.show(len(answers), f"{len(answers)} of {len(items)}, {speed:.0f}/s")
    progress.close()
    return answers


def _wrong(arguments: Namespace) -> str:
    if arguments.source and arguments.tatoeba:
        return "name either --source or --tatoeba"
    if arguments.source and not arguments.reference and not arguments.alignments:
        return "--source needs --reference"
    if arguments.reference and not arguments.source:
        return "--reference needs --source"
    if not arguments.source and not arguments.tatoeba and not arguments.alignments:
        return "nothing to measure: name --source and --reference, --tatoeba or --alignments"
    if arguments.limit is not None and arguments.limit < 1:
        return f"--limit must be at least 1, not {arguments.limit}"
    return ""


def _read(arguments: Namespace) -> tuple[TestSet | None, tuple[GoldPair, ...]]:
    pairs = None
    if arguments.tatoeba is not None:
        folder = arguments.tatoeba if str(arguments.tatoeba) != "." else Path(os.environ.get("REGARD_DATA", "data"))
        pairs = read_tatoeba(folder, arguments.split)
    elif arguments.source:
        pairs = read_parallel(arguments.source, arguments.reference)
    gold: tuple[GoldPair, ...] = ()
    if arguments.alignments:
        targets = [references[0] for references in pairs.references] if pairs and arguments.reference else []
        gold = read_alignments(arguments.alignments, sources=pairs.sources if pairs else (), targets=targets)
    return (pairs.first(arguments.limit) if pairs else None), gold[: arguments.limit]


def _server(arguments: Namespace) -> AbstractContextManager[Served | None]:
    if arguments.address:
        return nullcontext(None)
    return served(translator(arguments.models, profile=arguments.profile))

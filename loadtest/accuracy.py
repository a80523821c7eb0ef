"""`regard bench accuracy`: how well a server translates and aligns, by sacreBLEU and the alignment error rate.

It does not know models: it asks the server as any client does.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from client import Client, RegardCallError
from loadtest.alignment_error import GoldPair
from loadtest.processes import Served, StartError, served, translator
from loadtest.quality import Result, Search, measure
from loadtest.test_sets import TestSet, read_alignments, read_parallel, read_tatoeba
from loadtest.text_table import text_table

_LINKS_ALONE = "; alignments of source<TAB>target<TAB>links need neither, lines of links alone need both"


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
        help="gold links i-j (sure) or i?j (possible): source<TAB>target<TAB>links, or links alone beside --reference",
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


def _wrong(arguments: Namespace) -> str:
    if arguments.source and arguments.tatoeba:
        return "name either --source or --tatoeba"
    if arguments.source and not arguments.reference:
        also = "" if not arguments.alignments else _LINKS_ALONE
        return f"--source needs --reference{also}"
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

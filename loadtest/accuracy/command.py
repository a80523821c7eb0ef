"""`regard bench accuracy`: how well a server translates, aligns and captions, and where its words point.

It does not know models: it asks the server as any client does.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from regard.client import Client, RegardCallError
from regard.loadtest.accuracy.behaviour import Behaviour, behaviour_json, behaviour_text, measure_behaviour
from regard.loadtest.accuracy.caption_quality import CaptionResult, measure_captions
from regard.loadtest.accuracy.picture_sets import PictureSet, read_captions, read_flickr8k
from regard.loadtest.accuracy.pointing import draw_things
from regard.loadtest.accuracy.tables import captions_json, captions_text, translations_json, translations_text
from regard.loadtest.accuracy.test_sets import TestSet, read_alignments, read_parallel, read_tatoeba
from regard.loadtest.accuracy.translation_quality import Result, Search, measure
from regard.loadtest.accuracy.word_links import GoldPair
from regard.loadtest.base.processes import Served, StartError, served, translator

_LINKS_ALONE = "; alignments of source<TAB>target<TAB>links need neither, lines of links alone need both"
_THINGS = 240
_CASES = 60
_EPILOG = """\
examples:
  regard bench accuracy --tatoeba --beam 5
  regard bench accuracy --tatoeba --target fr --beam 5
  regard bench accuracy --source test.en --reference test.es --model mine
  regard bench accuracy --alignments gold.tsv
  regard bench accuracy --behaviour
  regard bench accuracy --flickr8k --beam 5
  regard bench accuracy --captions mine.tsv
  regard bench accuracy --pointing --keep drawn/

Texts are scored by sacreBLEU (BLEU, chrF) and, where links are known, by the alignment error rate. Captions are scored
by BLEU-1 to BLEU-4, with and without brevity penalty, and CIDEr, in small letters and without punctuation; on the test
split of Flickr8k the figures of the paper (Xu et al. 2015) and the differences to them stand beside ours. A file of
captions has lines PICTURE<TAB>CAPTION, one for each caption of a picture, with names that count from its own folder.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    texts = parser.add_argument_group("texts")
    texts.add_argument("--source", type=Path, metavar="FILE", help="one text a line")
    texts.add_argument(
        "--reference", type=Path, metavar="FILE", action="append", default=[], help="its translations; may be repeated"
    )
    texts.add_argument(
        "--tatoeba",
        type=Path,
        metavar="DIR",
        nargs="?",
        const=Path(),
        help="Tatoeba pairs instead, with one and with all references; without DIR from REGARD_DATA",
    )
    texts.add_argument(
        "--target", metavar="LANGUAGE", help="to translate into, for example fr: the model's first one without this"
    )
    texts.add_argument(
        "--alignments",
        type=Path,
        metavar="FILE",
        help="gold links i-j (sure) or i?j (possible): source<TAB>target<TAB>links, or links alone beside --reference",
    )
    texts.add_argument(
        "--behaviour",
        type=int,
        metavar="N",
        nargs="?",
        const=_CASES,
        help=f"write up to N sentences ({_CASES}) of each kind that test names, figures, marks, negation, greetings "
        "and length, and count which are kept; into es, fr and de without --target",
    )
    pictures = parser.add_argument_group("pictures")
    pictures.add_argument(
        "--flickr8k", type=Path, metavar="DIR", nargs="?", const=Path(), help="Flickr8k; without DIR from REGARD_DATA"
    )
    pictures.add_argument("--captions", type=Path, metavar="FILE", help="lines of PICTURE<TAB>CAPTION instead")
    pictures.add_argument(
        "--pointing",
        type=int,
        metavar="N",
        nargs="?",
        const=_THINGS,
        help=f"draw N pictures ({_THINGS}) of one thing and ask whether the map of its word peaks on it",
    )
    pictures.add_argument("--seed", type=int, default=1, help="of the drawn pictures and the sentences (1)")
    pictures.add_argument("--keep", type=Path, metavar="DIR", help="write the drawn pictures there, to be looked at")
    which = parser.add_argument_group("how much")
    which.add_argument("--split", default="test", help="of Tatoeba or Flickr8k: train, valid or test (test)")
    which.add_argument("--limit", type=int, metavar="N", help="the first N texts, pairs or pictures only")
    whom = parser.add_argument_group("the model")
    whom.add_argument("--model", default="", metavar="NAME[/VERSION]", help="the server's default without this")
    whom.add_argument("--address", metavar="HOST:PORT", help="a running server; without this a private one is started")
    whom.add_argument("--models", type=Path, metavar="DIR", action="append", default=[], help="of the private server")
    whom.add_argument("--profile", default="", help="graphs that the private server runs: portable, cpu, cuda")
    whom.add_argument("--beam", type=int, metavar="N", help="hypotheses kept; 1 is greedy search")
    whom.add_argument("--length-penalty", type=float, metavar="X", help="exponent of the length in the score")
    parser.add_argument("--json", action="store_true", help="print JSON with a key for each metric, from 0 to 100")


def command(arguments: Namespace) -> int:
    """Measure and print; 1 if data, server or an answer is missing, 2 for options that do not go together."""
    if problem := _wrong(arguments):
        sys.stderr.write(f"regard bench accuracy: {problem}\n")
        return 2
    name, _, version = arguments.model.partition("/")
    search = Search(
        model=name,
        version=version,
        beam_size=arguments.beam,
        length_penalty=arguments.length_penalty,
        target_language=arguments.target,
    )
    try:
        result = _measure(arguments, search)
    except (OSError, ValueError, StartError, RegardCallError) as problem:
        sys.stderr.write(f"regard bench accuracy: {problem}\n")
        return 1
    if isinstance(result, Result):
        found, text = translations_json(result), translations_text(result)
    elif isinstance(result, Behaviour):
        found, text = behaviour_json(result), behaviour_text(result)
    else:
        found, text = captions_json(result), captions_text(result)
    sys.stdout.write(json.dumps(found, indent=2) + "\n" if arguments.json else text)
    for line in result.failures:
        sys.stderr.write(f"not answered: {line}\n")
    return 1 if result.failures else 0


def _measure(arguments: Namespace, search: Search) -> Result | Behaviour | CaptionResult:
    if _of_pictures(arguments):
        return _caption(arguments, search)
    return _translate(arguments, search) if arguments.behaviour is None else _behave(arguments, search)


def _of_pictures(arguments: Namespace) -> bool:
    return any(getattr(arguments, name) is not None for name in ("flickr8k", "captions", "pointing"))


def _wrong(arguments: Namespace) -> str:
    if arguments.limit is not None and arguments.limit < 1:
        return f"--limit must be at least 1, not {arguments.limit}"
    if _of_pictures(arguments):
        return _wrong_pictures(arguments)
    if arguments.keep:
        return "--keep needs --pointing"
    if arguments.behaviour is not None:
        if any((arguments.source, arguments.reference, arguments.tatoeba, arguments.alignments, arguments.limit)):
            return "--behaviour writes its own sentences; measure other texts apart"
        return "" if arguments.behaviour > 0 else f"--behaviour must be at least 1, not {arguments.behaviour}"
    if arguments.source and arguments.tatoeba:
        return "name either --source or --tatoeba"
    if arguments.source and not arguments.reference:
        also = "" if not arguments.alignments else _LINKS_ALONE
        return f"--source needs --reference{also}"
    if arguments.reference and not arguments.source:
        return "--reference needs --source"
    if not arguments.source and not arguments.tatoeba and not arguments.alignments:
        return (
            "nothing to measure: name --source and --reference, --tatoeba, --alignments or --behaviour for texts, "
            "--flickr8k, --captions or --pointing for pictures"
        )
    return ""


def _wrong_pictures(arguments: Namespace) -> str:
    if any(
        (
            arguments.source,
            arguments.reference,
            arguments.tatoeba,
            arguments.alignments,
            arguments.target,
            arguments.behaviour,
        )
    ):
        return "texts and pictures are for different models; measure one after the other"
    if arguments.flickr8k is not None and arguments.captions is not None:
        return "name either --flickr8k or --captions"
    if arguments.pointing is not None and arguments.pointing < 1:
        return f"--pointing must be at least 1, not {arguments.pointing}"
    if arguments.keep and arguments.pointing is None:
        return "--keep needs --pointing"
    return ""


def _translate(arguments: Namespace, search: Search) -> Result:
    pairs, gold = _read_texts(arguments)
    with _server(arguments) as server, Client(server.address if server else arguments.address) as client:
        client.wait_ready()
        return measure(client, search, pairs=pairs, gold=gold)


def _behave(arguments: Namespace, search: Search) -> Behaviour:
    with _server(arguments) as server, Client(server.address if server else arguments.address) as client:
        client.wait_ready()
        return measure_behaviour(client, search, count=arguments.behaviour, seed=arguments.seed)


def _caption(arguments: Namespace, search: Search) -> CaptionResult:
    pictures = _read_pictures(arguments)
    things = draw_things(arguments.pointing or 0, seed=arguments.seed)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        for thing in things:
            (arguments.keep / f"{thing.name}.png").write_bytes(thing.content)
    with _server(arguments) as server, Client(server.address if server else arguments.address) as client:
        client.wait_ready()
        return measure_captions(client, search, pictures=pictures, things=things)


def _read_texts(arguments: Namespace) -> tuple[TestSet | None, tuple[GoldPair, ...]]:
    pairs = None
    if arguments.tatoeba is not None:
        pairs = read_tatoeba(_data(arguments.tatoeba), arguments.split, arguments.target or "es")
    elif arguments.source:
        pairs = read_parallel(arguments.source, arguments.reference)
    gold: tuple[GoldPair, ...] = ()
    if arguments.alignments:
        targets = [references[0] for references in pairs.references] if pairs and arguments.reference else []
        gold = read_alignments(arguments.alignments, sources=pairs.sources if pairs else (), targets=targets)
    return (pairs.first(arguments.limit) if pairs else None), gold[: arguments.limit]


def _read_pictures(arguments: Namespace) -> PictureSet | None:
    if arguments.flickr8k is not None:
        return read_flickr8k(_data(arguments.flickr8k), arguments.split).first(arguments.limit)
    if arguments.captions is not None:
        return read_captions(arguments.captions).first(arguments.limit)
    return None


def _data(named: Path) -> Path:
    return named if str(named) != "." else Path(os.environ.get("REGARD_DATA", "data"))


def _server(arguments: Namespace) -> AbstractContextManager[Served | None]:
    if arguments.address:
        return nullcontext(None)
    return served(translator(arguments.models, profile=arguments.profile))

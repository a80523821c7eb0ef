"""`regard bench cases`: the ways in which translators and captioners are known to fail, tried on a running server.

It does not know the cases themselves; it tries them one by one, sees that the server goes on, and prints outcomes.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size

import grpc
from tests.acceptance.case_server import CaseServer, Outcome, Reply, connect, status_of
from tests.acceptance.decoding_cases import (
    batch_and_beams,
    batch_and_padding,
    beam_sizes,
    n_best,
    nothing_known,
    rows_and_columns,
    scores,
    stops,
    words,
)
from tests.acceptance.image_cases import (
    animations,
    deep_colours,
    endless,
    ink_colours,
    kinds_of_colours,
    maps_of_turned_pictures,
    one_pixel,
    orientations,
    proportions,
    transparency,
)
from tests.acceptance.image_refusals import bombs, no_pictures, not_whole, other_formats
from tests.acceptance.picture_server import Captioner, Seen, plain_picture
from tests.acceptance.quantised_cases import int8_quality
from tests.acceptance.tested_cases import run_tests
from tests.acceptance.text_cases import (
    broken_unicode,
    control_characters,
    emoji,
    empty_text,
    normal_forms,
    only_bounded,
    repetition,
    sentences,
    too_long,
)
from tests.acceptance.transport_cases import deadlines, health_under_load, large_messages, load_generator

from regard.loadtest.base.processes import StartError, served, translator
from regard.loadtest.base.progress import Progress
from regard.loadtest.base.text_table import table_head, table_row

Try = Callable[[CaseServer], list[Outcome]]
Take = Callable[[Sequence[Outcome]], None]

CASES: dict[str, Try] = {
    "T01": empty_text,
    "T03": repetition,
    "T04": too_long,
    "T05": emoji,
    "T08": normal_forms,
    "T10": control_characters,
    "T11": broken_unicode,
    "T13": only_bounded(
        "T13", "T13_angle_math.txt", "T13_html_inline.txt", "T13_html_nested.txt", "T13_xml_unbalanced.txt"
    ),
    "T14": only_bounded("T14", "T14_placeholders.txt"),
    "T15": only_bounded("T15", "T15_numbers_in_text.txt", "T15_numbers_only.txt", "T15_urls.txt"),
    "T16": only_bounded("T16", "T16_lower.txt", "T16_title.txt", "T16_upper.txt"),
    "T17": sentences,
    "T19": only_bounded("T19", "T19_mixed_script.txt", "T19_short_fragment_zh.txt"),
    "I01": ink_colours,
    "I02": deep_colours,
    "I03": kinds_of_colours,
    "I04": transparency,
    "I06": animations,
    "I08": orientations,
    "I10": not_whole,
    "I11": bombs,
    "I13": one_pixel,
    "I14": proportions,
    "I15": no_pictures,
    "I16": other_formats,
    "D01": stops,
    "D02": endless,
    "D05": batch_and_beams,
    "D06": batch_and_padding,
    "D08": beam_sizes,
    "D09": n_best,
    "D11": scores,
    "D12": nothing_known,
    "D14": rows_and_columns,
    "D16": words,
    "D17": maps_of_turned_pictures,
    "X07": int8_quality,
    "G01": large_messages,
    "G02": deadlines,
    "G07": health_under_load,
    "L01": load_generator,
}
# What no running server can show: toy models, hand-made scores, graphs that are wrong on purpose.
TESTED = ("D01", "D02", "D03", "D08", "D12", "D14", "D17", "X01", "X03", "X04", "X05", "X08", "X11", "X12")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--cases",
        type=Path,
        metavar="DIR",
        default=os.environ.get("REGARD_CASES") or None,
        help="folder with inputs/; without this that of REGARD_CASES",
    )
    parser.add_argument("--only", metavar="CASE", action="append", default=[], help="this case; may be repeated")
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="a running server; without this a private one is started"
    )
    parser.add_argument("--models", type=Path, metavar="DIR", action="append", default=[], help="of the private server")
    parser.add_argument("--profile", default="", help="graphs that the private server runs: portable, cpu, cuda")
    parser.add_argument("--no-tests", action="store_true", help="do not run the tests that hold the other cases")
    parser.add_argument("--json", action="store_true", help="print JSON, when all is tried")


def command(arguments: Namespace) -> int:
    """Try the cases; 1 if any outcome is not as expected or the server is gone, 2 for wrong options."""
    known = dict.fromkeys((*CASES, *TESTED))
    chosen = arguments.only or list(known)
    if unknown := [case for case in chosen if case not in known]:
        sys.stderr.write(f"regard bench cases: no case {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    if arguments.cases is None:
        sys.stderr.write("regard bench cases: name the folder of the input files by --cases or REGARD_CASES\n")
        return 2
    inputs = arguments.cases / "inputs" if (arguments.cases / "inputs").is_dir() else arguments.cases
    if not (inputs / "T01_empty.txt").is_file():
        missing = "its input files come with the list of cases; name their folder by --cases or REGARD_CASES"
        sys.stderr.write(f"regard bench cases: {inputs} holds no T01_empty.txt: {missing}\n")
        return 1
    outcomes: list[Outcome] = []
    show = _discard if arguments.json else _table()

    def take(found: Sequence[Outcome]) -> None:
        outcomes.extend(found)
        show(found)

    try:
        try_cases(arguments, inputs, [case for case in CASES if case in chosen], take)
    except StartError as problem:
        sys.stderr.write(f"regard bench cases: {problem}\n")
        return 1
    except grpc.RpcError as error:
        sys.stderr.write(f"regard bench cases: {': '.join(status_of(error))}\n")
        return 1
    if tested := [case for case in TESTED if case in chosen]:
        take(run_tests(tested, run=not arguments.no_tests))
    if arguments.json:
        outcomes.sort(key=lambda outcome: list(known).index(outcome.case))
        sys.stdout.write(json.dumps([outcome._asdict() for outcome in outcomes], indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_counts(outcomes))
    return 1 if any(outcome.ok is False for outcome in outcomes) else 0


def try_cases(arguments: Namespace, inputs: Path, cases: Sequence[str], take: Take) -> None:
    """Try cases on one server, which must answer after each as before; hand over what comes of each at once."""
    if not cases:
        return
    progress = Progress("cases", len(cases), shown=not sys.stdout.isatty())
    with _server(arguments, inputs) as server:
        for number, case in enumerate(cases):
            progress.show(number, case)
            take(CASES[case](server))
            after = ordinary_call(server)
            if after.code != "OK":
                take([Outcome(case, "an ordinary call afterwards", "OK", after.short, False)])
                if after.code == "UNAVAILABLE":
                    break
        progress.show(len(cases))
    progress.close()


def ordinary_call(server: CaseServer) -> Reply | Seen:
    """What must succeed whatever was tried before."""
    if server.translates:
        return server.translate("Hello.")
    return Captioner(server=server, attention=None).see(plain_picture())


def _table() -> Take:
    """Begin a table on stdout; what is returned adds rows, each readable before the next case is tried."""
    marks = {True: "ok", False: "MISMATCH", None: "not run"}
    # Three columns of text share what the other two leave.
    wide = max((get_terminal_size((160, 24)).columns - 24) // 3, 20)
    widths = (4, wide, wide, wide, max(map(len, marks.values())))
    sys.stdout.write(table_head(("case", "tried", "expected", "got", ""), widths))
    sys.stdout.flush()

    def add(found: Sequence[Outcome]) -> None:
        for o in found:
            sys.stdout.write(table_row((o.case, o.tried, o.expected, _printable(o.got), marks[o.ok]), widths))
        sys.stdout.flush()

    return add


def _discard(_: Sequence[Outcome]) -> None:
    return


def _counts(outcomes: Sequence[Outcome]) -> str:
    bad = sum(outcome.ok is False for outcome in outcomes)
    skipped = sum(outcome.ok is None for outcome in outcomes)
    cases = len({outcome.case for outcome in outcomes})
    return f"{len(outcomes)} trials of {cases} cases, {bad} not as expected, {skipped} not run\n"


@contextmanager
def _server(arguments: Namespace, inputs: Path) -> Generator[CaseServer]:
    if arguments.address:
        yield connect(arguments.address, inputs, None)
        return
    with served(translator(arguments.models, profile=arguments.profile)) as server:
        yield connect(server.address, inputs, server.log, server.process.pid)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)

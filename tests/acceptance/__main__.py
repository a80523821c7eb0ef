"""`make acceptance`: tries the ways in which other systems are known to fail on a running server.

It starts the embedded models itself unless an address is given, makes its input files itself, and prints a table of
what was tried, expected and got. After each case the server has to answer an ordinary call as before. Cases about
export and toy models are held by tests, which it runs at the end.
"""

import json
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size

import grpc
from tests.acceptance.case_server import CaseServer, Inputs, Outcome, Reply, connect, status_of
from tests.acceptance.cases import CASES, Case
from tests.acceptance.held_by_tests import HELD_BY, run_tests
from tests.acceptance.picture_server import Captioner, Seen, plain_picture

from regard.loadtest.base.processes import StartError, served, translator
from regard.loadtest.base.progress import Progress
from regard.loadtest.base.termination import ended_by_sigterm
from regard.loadtest.base.text_table import table_head, table_row

Take = Callable[[Sequence[Outcome]], None]
_PROG = "python -m tests.acceptance"
_EPILOG = f"""\
exit code: 0 if all is as expected, 1 if not or if the server is gone, 2 for wrong options

examples:
  {_PROG} --only T01 --only I08
  {_PROG} --address localhost:50051 --no-tests
"""


def main(argv: Sequence[str], cases: Mapping[str, Case] = CASES) -> int:
    """Try the cases. Returns 1 if any outcome is not as expected or the server is gone, 2 for wrong options."""
    known = dict.fromkeys((*cases, *HELD_BY))
    arguments = _parser().parse_args(argv)
    chosen = arguments.only or list(known)
    if unknown := [case for case in chosen if case not in known]:
        sys.stderr.write(f"{_PROG}: no case {', '.join(unknown)}; there are {', '.join(sorted(known))}\n")
        return 2
    if arguments.list:
        sys.stdout.write("".join(f"{name}  {case.about}\n" for name, case in cases.items()))
        return 0
    began = time.monotonic()
    outcomes: list[Outcome] = []
    show = _discard if arguments.json else _table()

    def take(found: Sequence[Outcome]) -> None:
        outcomes.extend(found)
        show(found)

    try:
        try_cases(arguments, {name: case for name, case in cases.items() if name in chosen}, take)
    except StartError as problem:
        sys.stderr.write(f"{_PROG}: {problem}\n")
        return 1
    except grpc.RpcError as error:
        sys.stderr.write(f"{_PROG}: {': '.join(status_of(error))}\n")
        return 1
    if not arguments.no_tests and (held := [case for case in HELD_BY if case in chosen]):
        take(run_tests(held))
    if arguments.json:
        outcomes.sort(key=lambda outcome: list(known).index(outcome.case))
        sys.stdout.write(json.dumps([outcome._asdict() for outcome in outcomes], indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_counts(outcomes, time.monotonic() - began))
    return 1 if any(outcome.ok is False for outcome in outcomes) else 0


def try_cases(arguments: Namespace, cases: Mapping[str, Case], take: Take) -> None:
    """Try cases on one server, which must answer after each as before; hand over the outcomes of each case at once."""
    if not cases:
        return
    progress = Progress("cases", len(cases), shown=not sys.stdout.isatty())
    with _server(arguments) as server:
        for number, (name, case) in enumerate(cases.items()):
            progress.show(number, f"{name} {case.about}")
            take(case.attempt(server))
            after = ordinary_call(server)
            if after.code != "OK":
                take([Outcome(name, "an ordinary call afterwards", "OK", after.short, False)])
                if after.code == "UNAVAILABLE":
                    break
        progress.show(len(cases))
    progress.close()


def ordinary_call(server: CaseServer) -> Reply | Seen:
    """What must succeed whatever was tried before."""
    if server.translates:
        return server.translate("Hello.")
    return Captioner(server=server, attention=None).see(plain_picture())


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog=_PROG,
        description="Try known failures of other translators and captioners on a running server.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="CASE", action="append", default=[], help="this case; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the cases and try none")
    parser.add_argument("--address", metavar="HOST:PORT", help="a running server (a private one is started)")
    parser.add_argument(
        "--models", type=Path, metavar="DIR", action="append", default=[], help="of the private server (the embedded)"
    )
    parser.add_argument("--profile", default="", help="graphs that the private server runs: portable, cpu, cuda")
    parser.add_argument("--no-tests", action="store_true", help="leave out the cases that tests hold")
    parser.add_argument("--json", action="store_true", help="print JSON when all is tried")
    return parser


def _table() -> Take:
    """Begin a table on stdout; what is returned adds rows, each readable before the next case is tried."""
    marks = {True: "ok", False: "MISMATCH", None: "not tried"}
    # Three columns of text share what the other two leave.
    wide = max((get_terminal_size((160, 24)).columns - 25) // 3, 20)
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


def _counts(outcomes: Sequence[Outcome], seconds: float) -> str:
    bad = sum(outcome.ok is False for outcome in outcomes)
    skipped = sum(outcome.ok is None for outcome in outcomes)
    cases = len({outcome.case for outcome in outcomes})
    text = f"{len(outcomes)} trials of {cases} cases in {seconds:.0f} s, {bad} not as expected"
    return f"{text}, {skipped} not tried\n" if skipped else f"{text}\n"


@contextmanager
def _server(arguments: Namespace) -> Generator[CaseServer]:
    if arguments.address:
        yield connect(arguments.address, Inputs(), None)
        return
    with served(translator(arguments.models, profile=arguments.profile)) as server:
        yield connect(server.address, Inputs(), server.log, server.process.pid)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


if __name__ == "__main__":
    with ended_by_sigterm():
        sys.exit(main(sys.argv[1:]))

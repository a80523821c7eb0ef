"""The subcommands of `regard bench`: reads which one is meant and imports that one only.

It does not know how any of them works.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from regard.loadtest.base.termination import ended_by_sigterm


class Command(NamedTuple):
    """A subcommand: its module has add_arguments(parser) and command(arguments) -> exit code."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("run", "regard.loadtest.run", "make a load, measure it from the intended send times, write a report"),
    Command(
        "selftest",
        "regard.loadtest.toy.selftest",
        "show on a server with known delays that the load test tells the truth",
    ),
    Command(
        "accuracy",
        "regard.loadtest.accuracy.command",
        "BLEU, chrF, alignment error rate and CIDEr of what a server answers",
    ),
    Command(
        "engine", "regard.benches.engine.command", "our decode engine beside CTranslate2 on the same weights, in turn"
    ),
    Command("report", "regard.loadtest.report.rebuild", "make the report of a finished run again from its folder"),
)


def main(argv: Sequence[str], *, prog: str = "regard bench") -> int:
    """Run the subcommand that the first argument names. Returns its exit code; 2 if there is none such."""
    known = {command.name: command for command in COMMANDS}
    if argv and argv[0] in known:
        return _run(known[argv[0]], argv[1:], prog)
    lines = [f"usage: {prog} COMMAND ...", "", *(f"  {c.name:<10} {c.summary}" for c in COMMANDS), ""]
    text = "\n".join([*lines, f"{prog} COMMAND --help says more.", ""])
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write(text)
        return 0
    sys.stderr.write((f"{prog}: no command {argv[0]!r}\n" if argv else "") + text)
    return 2


def _run(entry: Command, argv: Sequence[str], prog: str) -> int:
    try:
        module = import_module(entry.module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("regard"):
            raise
        sys.stderr.write(f"{prog} {entry.name} needs {missing.name}, which comes with the extra `loadtest`\n")
        return 1
    parser = ArgumentParser(prog=f"{prog} {entry.name}", description=f"{entry.summary[0].upper()}{entry.summary[1:]}.")
    module.add_arguments(parser)
    arguments: Namespace = parser.parse_args(argv)
    with ended_by_sigterm():
        return module.command(arguments)

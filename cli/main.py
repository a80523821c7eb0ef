"""Finds the command that was asked for, runs it and turns what it raises into one line and an exit status.

Knows no options of any command; loads only the module of the one that runs.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn, Protocol, TextIO, cast

from regard.cli.failure import FAILED, INTERRUPTED, OK, READER_GONE, USAGE, CommandFailed
from regard.cli.speech import complain

COMMANDS = {
    "translate": "translate texts, or lines from stdin; draw what each word looked at",
    "caption": "caption pictures; draw where each word looked",
    "serve": "serve models over gRPC",
    "models": "list the models that a server holds",
    "demo": "see it all once: serve, translate, caption, draw, load-test",
    "train": "train a model by a recipe",
    "export": "turn a training run into a bundle that can be served",
    "verify": "check a bundle",
    "ladder": "measure what attention buys, from no attention to the Transformer",
    "bench": "measure speed, latency and quality",
}

_EPILOG = """\
start with:
  regard demo
  regard serve &
  regard translate "We are eating bread." --alignments
  regard caption photo.jpg --overlay slide.png

`regard COMMAND --help` tells more about each.
exit status: 0 done, 1 failed (one line on stderr says why), 2 wrong usage, 130 Ctrl-C, 143 SIGTERM (bench, demo)
"""

# What is missing, by the module that could not be found, where it is not the extra named like the command.
_EXTRA_OF_MODULE = {"matplotlib": "pictures", "PIL": "pictures"}


class Command(Protocol):
    """What a module of this folder offers for a command."""

    EXTRA: str
    """The extra of the installation that it needs; empty if a plain one will do."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Describe the command and add its options to its parser."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Run it; return the exit status."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `regard` with these arguments, by default those of the process; return the exit status."""
    if cast("TextIO | None", sys.stdout) is None:
        return _fail("standard output is closed")
    _speak_utf8()
    try:
        status = _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain once more when it flushes at exit.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # stays open until the process ends
        return READER_GONE
    except CommandFailed as error:
        return _fail(str(error), error.status)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return status


def _speak_utf8() -> None:
    """Make output UTF-8 with plain line ends, whatever the locale: texts are data, and have one encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        return _without_command(arguments)
    name, *rest = arguments
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `regard {close[0]}`?" if close else f"there are {', '.join(COMMANDS)}"
        return _fail(f"no command {name!r}; {hint}", USAGE)
    command = cast(Command, importlib.import_module(f"regard.cli.commands.{name}"))
    parser = new_parser(f"regard {name}", COMMANDS[name])
    try:
        command.add_arguments(parser)
        args = parser.parse_args(rest)
        return command.run(args)
    except ModuleNotFoundError as error:
        raise CommandFailed(_missing(name, command.EXTRA, error)) from error
    except SystemExit as exit_:
        return _status(exit_)


def new_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """Return a parser that keeps the lines of its epilog, and complains in one line."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=f"{description[0].upper()}{description[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )

    def error(message: str) -> NoReturn:
        raise SystemExit(_fail(f"{message} (see `{prog} --help`)", USAGE))

    parser.error = error
    return parser


def _without_command(arguments: list[str]) -> int:
    parser = new_parser("regard", "translate and caption with models that show what they looked at")
    parser.usage = "regard COMMAND ..."
    listing = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    parser.epilog = f"commands:\n{listing}\n\n{_EPILOG}"
    parser.add_argument("--version", action="version", version=_version())
    try:
        parser.parse_args(arguments)
    except SystemExit as exit_:
        return _status(exit_)
    parser.print_help(sys.stderr)
    return USAGE


def _status(exit_: SystemExit) -> int:
    """Return the status with which something, argparse after --help for example, wanted to end the process."""
    if isinstance(exit_.code, str):
        return _fail(exit_.code)
    return exit_.code or OK


def _version() -> str:
    try:
        return f"regard {version('regard')}"
    except PackageNotFoundError:
        return "regard, not installed as a package"


def _missing(name: str, extra: str, error: ModuleNotFoundError) -> str:
    module = (error.name or "").partition(".")[0]
    if module == "regard":
        return f"regard {name} needs {error.name}, which this installation lacks"
    extra = extra or _EXTRA_OF_MODULE.get(module, "")
    if not extra:
        return f"this installation lacks the package {module}; in a checkout, `make setup` installs everything"
    return (
        f"regard {name} needs the {extra} extra (there is no module {module}); "
        f"in a checkout: pip install '.[{extra}]', or make setup"
    )


def _fail(message: str, status: int = FAILED) -> int:
    complain(message)
    return status


if __name__ == "__main__":
    sys.exit(main())

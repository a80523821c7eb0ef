"""Measures; the load-test folder does it, and has the table of its commands.

Does not know any of their options.
"""

import argparse

EXTRA = "loadtest"

_EPILOG = """\
commands:
{commands}

examples:
  regard bench run --rate 10 --duration 30
  regard bench run --rate 10 --classes medium=4,caption=1
  regard bench accuracy --model en-es-rnn --source test.en --reference test.es
  regard bench accuracy --flickr8k --pointing

`regard bench COMMAND --help` tells more about each.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    from regard.loadtest.commands import COMMANDS

    parser.usage = "regard bench COMMAND ..."
    listing = "\n".join(f"  {command.name:<10} {command.summary}" for command in COMMANDS)
    parser.epilog = _EPILOG.format(commands=listing)
    names = [command.name for command in COMMANDS]
    parser.add_argument("command", choices=names, metavar="COMMAND", help="one of the names below")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="options of the command")


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    from regard.loadtest.commands import main

    return main([args.command, *args.options], prog="regard bench")

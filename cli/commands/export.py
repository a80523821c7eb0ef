"""Turns a training run into a bundle; the export folder does it.

Does not know any of its options.
"""

import argparse

from regard.cli.mount import mount, run_mounted

EXTRA = "export"

_MODULE = "regard.export.__main__"

_EPILOG = """\
examples:
  regard export runs/en-es-rnn/best models/en-es-rnn/1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    mount(_MODULE, parser, epilog=_EPILOG)


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    return run_mounted(_MODULE, args)

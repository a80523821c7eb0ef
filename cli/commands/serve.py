"""Serves models; the server does it.

Does not know any of its options.
"""

import argparse

from regard.cli.mount import mount, run_mounted

EXTRA = "serve"

_MODULE = "regard.server.__main__"

_EPILOG = """\
examples:
  regard serve
  regard serve --models models --address 0.0.0.0:50051 --workers 4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    mount(_MODULE, parser, epilog=_EPILOG)


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    return run_mounted(_MODULE, args)

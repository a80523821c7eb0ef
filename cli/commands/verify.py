"""Checks a bundle; the export folder does it.

Does not know any of its options.
"""

import argparse

from regard.cli.mount import mount, run_mounted

EXTRA = "serve"

_MODULE = "regard.export.verify"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    mount(_MODULE, parser)


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    return run_mounted(_MODULE, args)

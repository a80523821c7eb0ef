"""`regard bench report`: makes summary, verdict and report of a finished run again from its folder.

It does not know any server; a program that has learnt to draw better can redraw old runs.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from regard.loadtest.report.results import make_results


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("directory", type=Path, help="folder of a run, with plan.json and requests.csv.gz")


def command(arguments: Namespace) -> int:
    """Make the results again; 0 even where they are bad ones, 1 if the folder holds no run."""
    try:
        outcome = make_results(arguments.directory)
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"regard bench report: {problem}\n")
        return 1
    sys.stdout.write(f"{outcome.sentence}\n")
    sys.stderr.write(f"report: {outcome.report}\n")
    return 0

"""Makes a command of a module of another folder that offers `add_arguments(parser)` and `run(args) -> int`.

Does not know what they do; loads a module only when its command was asked for.
"""

from __future__ import annotations

import argparse
import importlib
import re
from typing import Protocol, cast


class Mountable(Protocol):
    """What such a module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its options to a parser."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it; return the exit status."""
        ...


def mount(module: str, parser: argparse.ArgumentParser, *, epilog: str = "") -> None:
    """Add the options of a module; what its help says of `python -m` is said of the command instead."""
    _load(module).add_arguments(parser)
    name = re.escape(module.removesuffix(".__main__"))
    parser.epilog = re.sub(rf"python -m {name}(?!\.\w)", parser.prog, parser.epilog or epilog)


def run_mounted(module: str, args: argparse.Namespace) -> int:
    """Run a module."""
    return _load(module).run(args)


def _load(module: str) -> Mountable:
    return cast(Mountable, importlib.import_module(module))

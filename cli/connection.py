"""The options that every command which calls a server has, and how its errors are told.

Does not know what is called.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from regard.cli.failure import CommandFailed

if TYPE_CHECKING:
    from regard.client import Client

_ADDRESS_VARIABLE = "REGARD_ADDRESS"
_DEFAULT_ADDRESS = "127.0.0.1:50051"


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --address and --timeout."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--address",
        metavar="HOST:PORT",
        default=os.environ.get(_ADDRESS_VARIABLE) or _DEFAULT_ADDRESS,
        help=f"the server (default: ${_ADDRESS_VARIABLE}, or {_DEFAULT_ADDRESS})",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=60.0,
        help="how long one call may take, retries included (default: 60)",
    )


@contextmanager
def connect(args: argparse.Namespace) -> Generator[Client]:
    """Give a client of the server that the options name; errors of its calls end the command in words."""
    from regard.client import Client, RegardCallError

    try:
        client = Client(args.address)
    except ValueError as error:
        raise CommandFailed(str(error)) from None
    with client:
        try:
            yield client
        except RegardCallError as error:
            raise CommandFailed(str(error)) from error


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}") from None
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text!r}")
    return value

"""The command `python -m server`: flags to settings, settings to a running server.

It does not know what serving means: `server.process` does, which is imported when there is something to serve, so that
help is quick.
"""

from __future__ import annotations

import argparse
import os
import sys

from server.configuration import add_arguments, read_settings
from server.errors import StartupError

__all__ = ["add_arguments", "main", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Serve as parsed arguments, REGARD_* variables and the settings file say, until a signal comes.

    Returns:
        the exit code: 0 after a stop that was asked for, 1 with one line on standard error if the server cannot start.
    """
    try:
        settings = read_settings(arguments, os.environ)
    except StartupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # gRPC writes several lines of its own where a port is taken; the one that matters is ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from server.process import serve

    return serve(settings)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m server")
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

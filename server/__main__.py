"""The command `python -m regard.server`: flags to settings, settings to a running server.

It does not know what serving means: `regard.server.front.process` does, which is imported when there is something to
serve, so that help is quick.
"""

from __future__ import annotations

import argparse
import os
import sys

from regard.server.errors import StartupError
from regard.server.front.configuration import add_arguments, read_settings

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
    from regard.server.front.process import serve

    return serve(settings)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m regard.server")
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

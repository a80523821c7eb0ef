"""The command `python -m regard.server`: reads settings and serves.

`regard.server.front.process` and all that it needs is imported only to serve, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import os
import sys

from regard.server.errors import StartupError
from regard.server.front.configuration import add_arguments, read_settings

__all__ = ["add_arguments", "main", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Serve with settings from parsed arguments, REGARD_* variables and the settings file, until a signal comes.

    Returns:
        the exit code: 0 after a requested stop, 1 with one line on standard error if the server cannot start.
    """
    try:
        settings = read_settings(arguments, os.environ)
    except StartupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # gRPC logs several lines of its own when a port is taken; our one line says all of it.
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

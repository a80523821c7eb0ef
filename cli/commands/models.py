"""Lists the models of a server.

Does not know how a server finds them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from regard.cli.connection import add_connection_arguments, connect
from regard.cli.failure import OK
from regard.cli.speech import say

if TYPE_CHECKING:
    from regard.client import Model

EXTRA = ""

_EPILOG = """\
examples:
  regard models
  regard models --address translate.example:50051
  regard models --json | python -m json.tool

--json prints the reply (regard.v1.ListModelsResponse) as protobuf JSON on one line.
The model that answers when none is named is marked with *.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    parser.epilog = _EPILOG
    parser.add_argument("--json", action="store_true", help="print the reply as protobuf JSON")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    with connect(args) as client:
        from regard.client.drawing.terminal import visible
        from regard.client.replies import models

        reply = client.send_list_models(timeout=args.timeout)
        if args.json:
            from regard.client.batching.json_lines import json_line

            say(json_line(reply))
        else:
            for line in _table([_row(model) for model in models(reply)]):
                say(visible(line).rstrip())
    return OK


def _row(model: Model) -> tuple[str, ...]:
    return (
        f"{model.name}{' *' if model.is_default else ''}",
        model.version,
        model.task,
        " → ".join(",".join(tags) for tags in (model.source_languages, model.target_languages) if tags),
        model.profile,
        model.digest[:12],
        model.description,
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    table = [("MODEL", "VERSION", "TASK", "LANGUAGES", "PROFILE", "DIGEST", "DESCRIPTION"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]

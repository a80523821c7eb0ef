"""Exports a trained model as a bundle: `python -m regard.export RUN BUNDLE`.

It does not know how; it reads options, calls the parts and reports.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

_LARGEST_BYTES_OF_MORE = 10**9
_DESCRIPTION = """\
Export a trained model as a bundle that `regard serve` serves.

The encoder and the decoder step become ONNX graphs with attention as an output, in two profiles: portable (plain
operators, weights stored as float16, computed in float32) and cpu (int8 decoder). Both are compared with the trained
model over sizes, padding and steps, and nothing is written if they differ by more than they may. The bundle appears
whole or not at all.
"""
_EPILOG = """\
examples:
  regard export runs/toy_reverse models/toy-reverse/1
  regard export runs/en_es_rnn models/en-es-rnn/1 --data ../data --replace
  regard verify models/en-es-rnn/1
  python -m regard.export.bundle.figures models/en-es-rnn/1 figures.json   adds measured quality and speed
  python -m regard.export.families.null loadtest/bundles/null/1                makes the bundle without a model

exit code: 0 if the bundle was written, 1 if it was refused; the reason is on stderr.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("run", type=Path, metavar="RUN", help="a training run (its best checkpoint) or a checkpoint")
    parser.add_argument(
        "bundle", type=Path, metavar="NAME/VERSION", help="folder to write; its last two parts name the bundle"
    )
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets (default: $REGARD_DATA)")
    parser.add_argument(
        "--figures", type=Path, metavar="FILE", help="measured figures to add, see regard.export.bundle.figures --help"
    )
    parser.add_argument("--description", default="", help="one line for lists of models (default: the recipe's)")
    parser.add_argument("--licence", default="", help="of the weights (default: that of the data)")
    parser.add_argument(
        "--float32",
        action="store_true",
        help="add the profile cpu-float32 of a Transformer, which `regard bench engine` can compare",
    )
    parser.add_argument(
        "--cuda",
        action="store_true",
        help="add the profile cuda, a Transformer in float16 for graphics cards; it is not checked on one: see "
        "`regard verify --device`",
    )
    parser.add_argument("--replace", action="store_true", help="write an existing bundle anew")


def run(args: argparse.Namespace) -> int:
    """Export as the options say; return the exit code."""
    # Here and not above: they load torch, which takes seconds that --help need not.
    from regard.export.build import BuildSettings, build
    from regard.export.bundle.figures import apply_figures, read_figures
    from regard.export.bundle.writer import LARGEST_BYTES, check_target, write_bundle
    from regard.export.errors import ExportError
    from regard.training.learning.checkpoint import CheckpointError

    started = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - started:5.1f} s] {line}\n")
        sys.stdout.flush()

    data = args.data or (Path(os.environ["REGARD_DATA"]) if os.environ.get("REGARD_DATA") else None)
    settings = BuildSettings(
        data=data, description=args.description, licence=args.licence, float32=args.float32, cuda=args.cuda
    )
    try:
        check_target(args.bundle, replace=args.replace)
        figures = read_figures(args.figures) if args.figures else {}
        bundle = build(args.run, settings, say)
        apply_figures(bundle.manifest, figures)
        # What has more profiles than the usual ones is not embedded.
        largest = _LARGEST_BYTES_OF_MORE if args.float32 or args.cuda else LARGEST_BYTES
        manifest = write_bundle(args.bundle, bundle, replace=args.replace, largest=largest)
    except (ExportError, CheckpointError, FileNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    size = sum(file.size_bytes for file in manifest.files)
    say(f"wrote {args.bundle}: {len(manifest.files)} files, {size / 1e6:.1f} MB")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run as a command of its own."""
    parser = argparse.ArgumentParser(prog="python -m regard.export")
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())

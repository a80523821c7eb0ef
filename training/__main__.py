"""Trains a model by a recipe: `python -m regard.training RECIPE --data DIR --out DIR`."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.training.recipes.catalogue import RECIPES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options to a parser; torch is not loaded."""
    width = max(map(len, RECIPES)) + 2
    recipes = "\n".join(f"  {name:{width}}{(recipe.__doc__ or '').splitlines()[0]}" for name, recipe in RECIPES.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Train a model by a named recipe, then score the best checkpoint on the test split.\n"
        "Run it again with the same --out to go on after a stop; at most one epoch is lost."
    )
    parser.epilog = (
        f"recipes:\n{recipes}\n\n"
        "example:\n  python -m regard.training toy_reverse --out runs/toy\n\n"
        "--out then holds latest/ and best/ (weights as safetensors, config.json, tokenizer.json), curves.svg,\n"
        "log/version_*/metrics.csv and, for going on, resume/ and what a --teacher said, taught.jsonl."
    )
    parser.add_argument("recipe", choices=RECIPES, metavar="RECIPE", help="one of the names below")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets (default: $REGARD_DATA)")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="folder of the run, made if need be")
    parser.add_argument(
        "--start-from",
        type=Path,
        metavar="RUN",
        help="begin with the weights and the vocabulary of this finished run, its best/ if it has one",
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        metavar="RUN",
        help="of recipes that learn from a finished run: that run, whose translations are kept in OUT/taught.jsonl",
    )
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="of caption recipes: folder of feature maps (default: OUT/features)"
    )
    parser.add_argument("--epochs", type=int, help="instead of the recipe's; the learning rate falls over all of them")
    parser.add_argument("--seed", type=int, help="instead of the recipe's")
    parser.add_argument("--accelerator", default="auto", help="auto, cpu, cuda, ... (default: %(default)s)")
    parser.add_argument("--devices", type=int, default=1, help="how many of them (default: %(default)s)")
    parser.add_argument("--precision", default="32-true", help="32-true, bf16-mixed, ... (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="CPU threads of each process (default: torch's choice)")
    parser.add_argument("--beam", type=int, default=5, help="beam size for the test split (default: %(default)s)")
    parser.add_argument("--evaluate-only", action="store_true", help="do not train, only score best/ of --out again")


def run(args: argparse.Namespace) -> int:
    """Train and evaluate as the options say; return the exit status."""
    started = time.monotonic()

    def say(line: str) -> None:
        if not sys.stderr.isatty():
            return
        sys.stderr.write(f"[{time.monotonic() - started:5.1f} s] {line}\n")
        sys.stderr.flush()

    data = args.data or Path(os.environ.get("REGARD_DATA", ""))
    say("loading PyTorch")
    # Here and not above: they load torch, which takes seconds that --help need not.
    from torch.distributed import get_rank, is_initialized

    from regard.training.decoding.search import SearchConfig
    from regard.training.learning.fit import Hardware
    from regard.training.learning.recipe import CaptionRecipe
    from regard.training.runs import captioning, translation

    # What Lightning says of itself and of devices that are not there.
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    try:
        recipe = RECIPES[args.recipe]()
        changed = {name: getattr(args, name) for name in ("epochs", "seed") if getattr(args, name) is not None}
        recipe = replace(recipe, fit=replace(recipe.fit, **changed))
        search = SearchConfig(beam_size=args.beam)
        hardware = Hardware(
            accelerator=args.accelerator, devices=args.devices, precision=args.precision, threads=args.threads
        )
        hardware.limit_threads()  # of feature maps, a teacher and the figures in the end, too
        if recipe.needs_data and data == Path():
            raise ValueError(f"{recipe.name} needs data: give their folder by --data or REGARD_DATA.")
        if args.teacher and (args.evaluate_only or isinstance(recipe, CaptionRecipe)):
            raise ValueError(f"{recipe.name} is not taught by this command: leave out --teacher.")
        if args.cache and not isinstance(recipe, CaptionRecipe):
            raise ValueError(f"{recipe.name} makes no feature maps: leave out --cache.")
        if not args.evaluate_only:
            if isinstance(recipe, CaptionRecipe):
                captioning.train(
                    recipe,
                    data=data,
                    out=args.out,
                    hardware=hardware,
                    start_from=args.start_from,
                    cache=args.cache,
                    say=say,
                )
            else:
                translation.train(
                    recipe,
                    data=data,
                    out=args.out,
                    hardware=hardware,
                    start_from=args.start_from,
                    teacher=args.teacher,
                    say=say,
                )
        # Each device has a process of its own; one of them reports.
        if is_initialized() and get_rank() != 0:
            return 0
        say(f"scoring {args.out / 'best'} on the test split, beam {args.beam}")
        if isinstance(recipe, CaptionRecipe):
            figures = captioning.evaluate(
                recipe, data=data, out=args.out, folder=args.out / "best", config=search, cache=args.cache
            )
        else:
            figures = translation.evaluate(recipe, data=data, folder=args.out / "best", config=search)
        for figure in figures:
            sys.stdout.write(f"{figure.metric:10}{figure.value:7.2f}  {figure.test_set}; {figure.search}\n")
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m regard.training")
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())

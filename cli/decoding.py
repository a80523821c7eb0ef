"""The options that every command which asks a model for sentences has.

Does not know what the model reads.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.client.requests import SearchOptions

# The wire has signed numbers of 32 bits.
_MOST = 2**31 - 1


def add_decoding_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --model, --version and how to search."""
    parser.add_argument("--model", default="", help="name of the model (default: that of the server)")
    parser.add_argument("--version", default="", help="version of the model (default: the newest)")
    parser.add_argument("--beam", type=count, metavar="N", help="hypotheses kept in the search; 1 is greedy and fast")
    parser.add_argument("--length-penalty", type=float, metavar="X", help="larger favours longer answers")
    parser.add_argument("--max-length", type=count, metavar="N", help="most subwords of an answer")
    parser.add_argument(
        "--no-repeat-ngram", type=_size, metavar="N", help="no N subwords occur twice in an answer; 0 allows all"
    )


def decoding_options(args: argparse.Namespace) -> SearchOptions:
    """Return what the arguments ask for."""
    return {
        "model": args.model,
        "version": args.version,
        "beam_size": args.beam,
        "n_best": args.n_best,
        "length_penalty": args.length_penalty,
        "max_length": args.max_length,
        "no_repeat_ngram": args.no_repeat_ngram,
    }


def count(text: str) -> int:
    """Read a number from 1."""
    return _number(text, 1)


def _size(text: str) -> int:
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
    if value > _MOST:
        raise argparse.ArgumentTypeError(f"must be at most {_MOST}, got {value}")
    return value

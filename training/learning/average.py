"""Averages the weights of checkpoints that go back to the same run.

Run it by `python -m regard.training.learning.average OUT RUN RUN ...`.

It does not know how they learnt, nor how good they are.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from regard.training.learning import checkpoint
from regard.training.learning.warm_start import StartError, describe_run, take_weights

_DESCRIPTION = """\
Average the weights of several checkpoints: epochs of one run, or a run and those that went on from it.

OUT/best is then a checkpoint like any other, with the recipe of the first one. Which ones to take is for validation
data to say. Weights that were learnt from different beginnings have nothing in common, and their mean is of no use.
"""
_EPILOG = """\
example:
  python -m regard.training.learning.average runs/mean runs/multi30k_transformer_rewarded \\
      runs/multi30k_transformer/latest
  python -m regard.training multi30k_transformer_rewarded --out runs/mean --evaluate-only
"""


def average(folders: Sequence[Path]) -> checkpoint.Checkpoint:
    """Return the first checkpoint with the mean of the weights of all; each is a run or a checkpoint.

    Raises FileNotFoundError where there is none, CheckpointError for one that cannot be read, StartError where kinds,
    sizes or vocabularies differ, and for one that is a mean itself.
    """
    found = [(checkpoint.find(folder), checkpoint.load(checkpoint.find(folder))) for folder in folders]
    first = found[0][1]
    totals = {name: torch.zeros_like(parameter) for name, parameter in first.model.named_parameters()}
    for folder, each in found:
        if each.vocabulary.digest != first.vocabulary.digest:
            raise StartError(f"{folder} has another vocabulary than {found[0][0]}.")
        if "epoch" not in each.metrics:
            raise StartError(f"{folder} is no epoch of a run; of a mean, take the parts.")
        take_weights(first.model, each)  # refuses what is not of the same kind and sizes
        for name, parameter in first.model.named_parameters():
            totals[name] += parameter.detach()
    with torch.no_grad():
        for name, parameter in first.model.named_parameters():
            parameter.copy_(totals[name] / len(found))
    parts = [describe_run(each, folder) for folder, each in found]
    # What was measured holds for none of the parts' mean.
    return replace(first, metrics={}, provenance={**first.provenance, "average": parts})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m regard.training.learning.average",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder that gets best/; there must be none yet")
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="a run, of which its best is taken, or an epoch"
    )
    given = parser.parse_args(arguments)
    if (given.out / "best").exists():
        parser.error(f"{given.out} has a checkpoint already.")
    try:
        checkpoint.save(given.out / "best", average(given.runs))
    except (FileNotFoundError, checkpoint.CheckpointError, StartError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"wrote {given.out / 'best'}, the mean of {len(given.runs)} checkpoints\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

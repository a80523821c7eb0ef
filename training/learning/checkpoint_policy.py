"""Keeps the checkpoints of a run's last and best epochs and deletes the others."""

import shutil
from pathlib import Path

from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint


def keep_epoch(out: Path, epoch: int, found: Checkpoint, *, best: bool) -> None:
    """Write epoch-NN/ of a run, let latest/ and, if it is the best so far, best/ lead to it, and drop all others."""
    folder = out / f"epoch-{epoch:02}"
    checkpoint.save(folder, found)
    for name in ("latest", *["best"] * best):
        checkpoint.point(out / name, folder)
    kept = {(out / name).resolve() for name in ("latest", "best")}
    for old in out.glob("epoch-*"):
        if old.resolve() not in kept:
            shutil.rmtree(old)

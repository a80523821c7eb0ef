"""Shows how a run is getting on: lines about what it does, its pace on the progress bar, its curves in a file."""

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

# Given a line about what is being done.
Say: TypeAlias = Callable[[str], object]

PACE = ("tokens_per_second", "minutes_left")


def silent(line: str) -> None:
    """Say nothing: for runs that nobody watches."""


class Pace(Callback):
    """Shows target tokens per second and the minutes left of the whole run, from the last updates.

    The module has to count `tokens_seen` and know its number of `updates`.
    """

    def __init__(self, every: int = 50) -> None:
        self.every = every
        self._mark = (0.0, 0, 0)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._mark = (time.monotonic(), pl_module.tokens_seen, trainer.global_step)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        start, tokens, step = self._mark
        if trainer.global_step - step < self.every:
            return
        now = time.monotonic()
        seconds = now - start
        left = (pl_module.updates - trainer.global_step) * seconds / (trainer.global_step - step)
        figures = ((pl_module.tokens_seen - tokens) / seconds, left / 60)
        pl_module.log_dict(dict(zip(PACE, figures, strict=True)), prog_bar=True)
        self._mark = (now, pl_module.tokens_seen, trainer.global_step)


def read_log(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Return (update, value) by name from the logs of all parts of a run, in order."""
    curves: dict[str, dict[float, float]] = {}
    parts = sorted((folder / "log").glob("version_*"), key=lambda part: int(part.name.removeprefix("version_")))
    for part in parts:
        path = part / "metrics.csv"
        if not path.is_file():
            continue
        with path.open(newline="") as lines:
            for row in csv.DictReader(lines):
                for name, value in row.items():
                    if value and name not in ("step", "epoch"):
                        curves.setdefault(name, {})[float(row["step"])] = float(value)
    return {name: sorted(points.items()) for name, points in curves.items()}


def draw_curves(folder: Path) -> None:
    """Draw the losses and the validation measures of a run to curves.svg."""
    from matplotlib.figure import Figure  # here, because nothing else needs it and it loads slowly

    figure = Figure(figsize=(10, 4), layout="constrained")
    losses, measures = figure.subplots(1, 2)
    for name, points in read_log(folder).items():
        if name in PACE:
            continue
        axes = losses if name.endswith("_loss") else measures
        axes.plot(*zip(*points, strict=True), label=name, marker=None if name == "train_loss" else "o", linewidth=1)
    for axes in (losses, measures):
        axes.set_xlabel("updates")
        if axes.has_data():
            axes.legend()
    figure.savefig(folder / "curves.svg")  # pyright: ignore[reportUnknownMemberType]  matplotlib types it in part

"""Measures how fast rungs train, and reads learning curves from their logs."""

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from regard.training.data.translation_data import Batch, TranslationData
from regard.training.data.vocabulary import PAD
from regard.training.families import TrainedModel
from regard.training.learning.loss import smoothed_cross_entropy
from regard.training.learning.progress import read_log

_ROUNDS = 3
_BATCHES = 4


class Logged(NamedTuple):
    """What a run's log says."""

    tokens_per_second: float | None  # median; None where it was too short to say
    epochs: int
    validation_loss: tuple[float, ...]  # after each epoch


def target_tokens(batches: Sequence[Batch]) -> int:
    """Return how many tokens of targets there are, </s> counted."""
    return sum(int((batch.target_out != PAD).sum()) for batch in batches)


def epoch_of(data: TranslationData) -> list[Batch]:
    """Return the batches of the first epoch; others have as many within a few."""
    batches = data.train(0)
    return [batches[place] for place in range(len(batches))]


def side_by_side(
    models: Sequence[TrainedModel], epoch: Sequence[Batch], clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Return target tokens a second of each model when it learns from the same batches, the best of several rounds.

    Seconds are those of the processor, which other work of the machine does not add to, and models take turns, so that
    it slows all of them alike. Their weights stay as they are.
    """
    # Evenly over all lengths.
    ordered = sorted(epoch, key=lambda batch: batch.target_out.shape[1])
    batches = ordered[:: max(len(ordered) // _BATCHES, 1)][:_BATCHES]
    tokens = target_tokens(batches)
    learners = [copy.deepcopy(model).train() for model in models]
    optimizers = [torch.optim.AdamW(learner.parameters(), lr=1e-4, fused=True) for learner in learners]
    best = [float("inf")] * len(models)
    for _ in range(_ROUNDS):
        for place, (learner, optimizer) in enumerate(zip(learners, optimizers, strict=True)):
            start = clock()
            for batch in batches:
                _update(learner, optimizer, batch)
            best[place] = min(best[place], clock() - start)
    return [tokens / seconds for seconds in best]


def read_run(folder: Path) -> Logged:
    """Return what the log in the folder of a run says; nothing where there is none."""
    log = read_log(folder)
    paces = [value for _, value in log.get("tokens_per_second", [])]
    losses = tuple(value for _, value in log.get("valid_loss", []))
    return Logged(statistics.median(paces) if paces else None, len(losses), losses)


def _update(model: TrainedModel, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    features, _ = model.forward(batch.source, batch.source_length, batch.target_in)
    loss = smoothed_cross_entropy(
        features, model.output.weight, model.output.bias, batch.target_out, batch.target_out != PAD, smoothing=0.1
    )
    optimizer.zero_grad()
    loss.backward()  # pyright: ignore[reportUnknownMemberType]  torch types it in part
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()  # pyright: ignore[reportUnknownMemberType]  torch types it in part

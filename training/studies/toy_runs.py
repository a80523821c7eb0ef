"""Trains a model on a toy in seconds and measures how often its answers to unseen sequences are right.

It does not know which model it trains. Its loop is the shortest that learns: no checkpoints, averages or logs, which
would take longer than a toy does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from regard.training.data.toy_data import Task, make_toy
from regard.training.data.translation_data import Pair, References, collate
from regard.training.data.vocabulary import PAD, Vocabulary
from regard.training.decoding.evaluate import translate
from regard.training.decoding.search import SearchConfig
from regard.training.families import TrainedModel
from regard.training.learning.loss import smoothed_cross_entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRun:
    """What a run depends on besides its model; the defaults take seconds."""

    task: Task
    longest: int = 6  # words
    updates: int = 350
    rows: int = 32  # sequences in an update, all new
    learning_rate: float = 5e-3  # reached over the first tenth, then falling as a cosine
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """A trained model with its vocabulary."""

    model: TrainedModel
    vocabulary: Vocabulary
    unseen: tuple[Pair, ...]  # drawn apart from what it learnt from


def learn(run: ToyRun, make: Callable[[int, int], TrainedModel]) -> Learnt:
    """Train the model that `make` returns for the numbers of entries and of predictable entries."""
    corpus = make_toy(run.task, pairs=run.updates * run.rows, longest=run.longest, seed=run.seed)
    sources, targets = [pair.source for pair in corpus.train], [pair.target for pair in corpus.train]
    vocabulary, output = Vocabulary.train(sources, targets, size=64)
    examples = list(zip(vocabulary.encode_all(sources), vocabulary.encode_all(targets), strict=True))
    torch.manual_seed(run.seed)  # pyright: ignore[reportUnknownMemberType]  half typed
    model = make(vocabulary.size, output).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.learning_rate, betas=(0.9, 0.98), fused=True)
    for update in range(run.updates):
        done = update / run.updates
        for group in optimizer.param_groups:
            group["lr"] = run.learning_rate * min(10 * done, 0.5 + 0.5 * math.cos(math.pi * done))
        batch = collate(examples[update * run.rows : (update + 1) * run.rows])
        features, _ = model(batch.source, batch.source_length, batch.target_in)
        mask = batch.target_out != PAD
        output_layer = model.output
        loss = smoothed_cross_entropy(
            features, output_layer.weight, output_layer.bias, batch.target_out, mask, smoothing=0.0
        )
        optimizer.zero_grad()
        loss.backward()  # pyright: ignore[reportUnknownMemberType]  half typed
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]  half typed
    return Learnt(model=model.eval(), vocabulary=vocabulary, unseen=(*corpus.valid, *corpus.test))


def right_by_length(learnt: Learnt, pairs: Sequence[Pair] = ()) -> dict[int, float]:
    """Return the share of exact answers, found greedily, by the number of words; of unseen sequences by default."""
    asked = [References(pair.source, (pair.target,)) for pair in pairs or learnt.unseen]
    found: dict[int, list[bool]] = {}
    answers = translate(learnt.model, learnt.vocabulary, asked, SearchConfig())
    for text, references in zip(answers, asked, strict=True):
        found.setdefault(len(references.source.split()), []).append(text in references.targets)
    return {length: sum(right) / len(right) for length, right in sorted(found.items())}

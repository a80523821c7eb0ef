"""Trains a toy model to write words backwards, and saves it as a training run would."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional

from regard.export.bundle.writer import Bundle
from regard.training.data.toy_data import read_toy
from regard.training.data.translation_data import collate
from regard.training.data.vocabulary import PAD, Vocabulary
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.models.rnn import Rnn, RnnConfig
from regard.v1 import bundle_pb2


class ToyRun(NamedTuple):
    """A folder that looks like what a training run leaves."""

    folder: Path
    checkpoint: Checkpoint


class ToyBundle(NamedTuple):
    """A bundle of the toy model, in memory and on disk, and what was said while it was made."""

    folder: Path
    bundle: Bundle
    manifest: bundle_pb2.Bundle
    said: list[str]


def quiet(line: str) -> None:
    """Hear what is said, and say nothing."""
    assert line


def train_toy(folder: Path) -> ToyRun:
    """Train a model of 64 units for a few seconds; its checkpoint is folder/best."""
    corpus = read_toy(reverse=True)
    sources, targets = [pair.source for pair in corpus.train], [pair.target for pair in corpus.train]
    vocabulary, output = Vocabulary.train(sources, targets, size=64)
    torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType]  half typed
    model = Rnn(
        RnnConfig(
            vocabulary=vocabulary.size, output=output, embedding=64, encoder=64, decoder=64, attention=64, dropout=0.0
        )
    )
    loss = torch.tensor(0.0)
    examples = list(zip(vocabulary.encode_all(sources), vocabulary.encode_all(targets), strict=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(150):
        batch = collate([examples[index % len(examples)] for index in range(step * 48, step * 48 + 48)])
        features, _ = model(batch.source, batch.source_length, batch.target_in)
        scores = model.output(features)
        loss = functional.cross_entropy(scores.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()  # pyright: ignore[reportUnknownMemberType]  half typed
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]  half typed
    made = Checkpoint(
        recipe="toy_reverse",
        model=model.eval(),
        vocabulary=vocabulary,
        metrics={"train_loss": loss.item(), "signatures": ["none"]},
        provenance={"data": {"origin": corpus.origin}},
    )
    checkpoint.save(folder / "best", made)
    return ToyRun(folder, made)

"""Opens a recurrent captioner for tracing: `encode` reads pixels, and the cells of its map are source positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.contract.model_ports import BATCH, Part, PictureAxes, name_ports
from regard.contract.ports import Axes
from regard.export.errors import TraceError
from regard.export.families.graphs import StepGraph, TraceableModel
from regard.training.data.vocabulary import BEGIN
from regard.training.models.captioner import Captioner

_BATCHES = (3, 8)  # to trace by; not 1, which torch takes for a constant


class PictureEncodeGraph(nn.Module):
    """pixels -> every field of memory, every field of state, self-attention if the model has it."""

    def __init__(self, model: Captioner) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        memory, state, weights = self.model.read(*inputs)
        return (*memory, *state) if weights is None else (*memory, *state, weights)


# Not inference_mode: the samples made here are traced with, which refuses tensors that autograd may not see.
@torch.no_grad()
def open_captioner(model: Captioner, *, vocabulary: int) -> TraceableModel:
    """Look at a captioner's memory and state for two batches, and tell its ports.

    Raises TraceError for a state that grows: `regard.export.families.captioner_transformer` makes the graphs of its
    decoder.
    """
    samples = sample_pictures(model)
    seen = [model.read(*inputs) for inputs in samples]
    (memory, state, weights), (other_memory, other_state, _) = seen
    scores, _, attention = model.step(torch.full((_BATCHES[0],), BEGIN), state, memory)
    ports = name_ports(
        memory=_parts(memory, other_memory),
        state=_parts(state, other_state),
        vocabulary=vocabulary,
        predictable=scores.shape[1],
        layers=attention.shape[1],
        heads=attention.shape[2],
        **picture_axes(model, weights),
    )
    return TraceableModel(
        encode=PictureEncodeGraph(model).eval(),
        step=StepGraph(model, _kind(memory), _kind(state), attends=True).eval(),
        ports=ports,
        encode_samples=samples,
        step_samples=tuple(
            (torch.full((batch,), BEGIN), *state, *memory)
            for batch, (memory, state, _) in zip(_BATCHES, seen, strict=True)
        ),
    )


def sample_pictures(model: Captioner) -> tuple[tuple[Tensor], ...]:
    """Return noise of two batches, to trace a model's `encode` by."""
    samples: list[tuple[Tensor]] = []
    for batch in _BATCHES:
        generator = torch.Generator().manual_seed(batch)
        shape = (batch, model.config.height, model.config.width, 3)
        samples.append((torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator),))
    return tuple(samples)


def picture_axes(model: Captioner, weights: Tensor | None) -> PictureAxes:
    """Return the sizes of what a captioner reads; weights are those of its self-attention, if it has any."""
    return {
        "pixels": (model.config.height, model.config.width),
        "cells": model.backbone.rows * model.backbone.columns,
        "encoder_attention": None if weights is None else (BATCH, *weights.shape[1:]),
    }


def _kind(parts: tuple[Tensor, ...]) -> type[tuple[Tensor, ...]]:
    return type(parts)


def _parts(one: Any, other: Any) -> list[Part]:
    return [
        Part(field, str(first.dtype).removeprefix("torch."), _axes(first, second))
        for field, first, second in zip(one._fields, one, other, strict=True)
    ]


def _axes(one: Tensor, other: Tensor) -> Axes:
    """Return the axes of a tensor that was made of both batches; only the first may differ."""
    if one.shape[1:] != other.shape[1:] or (one.shape[0], other.shape[0]) != _BATCHES:
        raise TraceError(f"A tensor has shapes {tuple(one.shape)} and {tuple(other.shape)} for batches of {_BATCHES}.")
    return (BATCH, *one.shape[1:])

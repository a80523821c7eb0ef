"""Wraps a model in two modules whose inputs and outputs are plain tensors, in the order of its ports.

Knows models only through the Protocol of `regard.training.models.protocol`, and nothing of ONNX.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.contract.model_ports import GraphPorts, ModelPorts, Part, name_ports
from regard.export.errors import TraceError
from regard.export.parity.greedy import END, pad_sources, random_sources
from regard.export.parity.runtime import Arrays
from regard.training.models.protocol import SequenceModel

Model = SequenceModel[Any, Any]

# Of batch and source. Not 1: torch takes it for a constant. Once fewer rows than positions and once more.
SIZES = ((3, 7), (8, 4))


class EncodeGraph(nn.Module):
    """source, source_length -> every field of memory, every field of state."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        memory, state = self.model.encode(*inputs)
        return (*memory, *state)


class StepGraph(nn.Module):
    """token, every field of state, every field of memory -> scores, every field of the next state, attention.

    A model without attention has no such output.
    """

    def __init__(
        self, model: Model, memory: type[tuple[Tensor, ...]], state: type[tuple[Tensor, ...]], *, attends: bool
    ) -> None:
        super().__init__()
        self.model = model
        self._memory = memory
        self._state = state
        self._attends = attends
        self._state_size = len(fields_of(state))

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        token, *parts = inputs
        state = self._state(*parts[: self._state_size])
        memory = self._memory(*parts[self._state_size :])
        scores, following, attention = self.model.step(token, state, memory)
        return (scores, *following, attention) if self._attends else (scores, *following)


class TraceableModel(NamedTuple):
    """A model as two modules, with its ports and, for each module, inputs of two sizes to trace it by."""

    encode: nn.Module
    step: nn.Module
    ports: ModelPorts
    encode_samples: tuple[tuple[Tensor, ...], ...]
    step_samples: tuple[tuple[Tensor, ...], ...]


# Not inference_mode: the samples made here are traced with, which refuses tensors that autograd may not see.
@torch.no_grad()
def open_model(model: Model, *, vocabulary: int) -> TraceableModel:
    """Look at a model's memory and state for two sizes of input, and tell the axes that vary from those that do not.

    Raises TraceError if an axis varies that is neither batch nor source, ValueError if a first axis is not batch.
    """
    sources = sources_of_two_sizes(vocabulary)
    seen = [_first_step(model, inputs) for inputs in sources]
    (memory, state, scores, attention), (other_memory, other_state, _, _) = seen

    ports = name_ports(
        memory=describe_parts(memory, other_memory),
        state=describe_parts(state, other_state),
        vocabulary=vocabulary,
        predictable=scores.shape[1],
        layers=attention.shape[1],
        heads=attention.shape[2],
    )
    return TraceableModel(
        encode=EncodeGraph(model).eval(),
        step=StepGraph(model, type(memory), type(state), attends=ports.layers > 0).eval(),
        ports=ports,
        encode_samples=sources,
        step_samples=tuple(
            (torch.full((batch,), END), *state, *memory)
            for (batch, _), (memory, state, _, _) in zip(SIZES, seen, strict=True)
        ),
    )


class TorchMachine:
    """A model run by torch, as its ports see it."""

    def __init__(self, traceable: TraceableModel) -> None:
        self._traceable = traceable

    def encode(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Read sources."""
        return _run(self._traceable.encode, self._traceable.ports.encode, inputs)

    def step(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Predict a token."""
        return _run(self._traceable.step, self._traceable.ports.step, inputs)


@torch.inference_mode()
def _run(module: nn.Module, ports: GraphPorts, inputs: Arrays) -> dict[str, NDArray[Any]]:
    tensors = module(tuple(_tensor(inputs[port.name]) for port in ports.inputs))
    return {port.name: tensor.numpy() for port, tensor in zip(ports.outputs, tensors, strict=True)}


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))  # pyright: ignore[reportUnknownMemberType]  half typed


def sources_of_two_sizes(vocabulary: int) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return random sources and their lengths, to trace a model by."""
    return tuple(_sources(vocabulary, *size) for size in SIZES)


def _sources(vocabulary: int, batch: int, length: int) -> tuple[Tensor, Tensor]:
    inputs = pad_sources(random_sources(batch, length, vocabulary, np.random.default_rng(0)))
    return _tensor(inputs["source"]), _tensor(inputs["source_length"])


def _first_step(
    model: Model, inputs: tuple[Tensor, Tensor]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor, Tensor]:
    """Return memory, state, scores and attention after a step."""
    memory, state = model.encode(*inputs)
    scores, following, attention = model.step(torch.full((len(inputs[0]),), END), state, memory)
    return memory, following, scores, attention


def describe_parts(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> list[Part]:
    """Return the fields of memory or state with their axes, told from what sources of both sizes led to.

    Raises TraceError if an axis varies that is neither batch nor source.
    """
    return [
        Part(field, _dtype(first), tuple(_axis(pair, field) for pair in zip(first.shape, second.shape, strict=True)))
        for field, first, second in zip(fields_of(type(one)), one, other, strict=True)
    ]


def fields_of(named: type[tuple[Tensor, ...]]) -> tuple[str, ...]:
    """Return the names of the fields of a NamedTuple."""
    return cast("tuple[str, ...]", named._fields)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  NamedTuple has no type of its own


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _axis(pair: tuple[int, int], field: str) -> str | int:
    """Name the axis that had these sizes for the two inputs."""
    if pair[0] == pair[1]:
        return pair[0]
    for index, name in enumerate(("batch", "source")):
        if pair == (SIZES[0][index], SIZES[1][index]):
            return name
    raise TraceError(f"{field} has an axis of {pair[0]} and {pair[1]} for {SIZES}, which is neither batch nor source.")

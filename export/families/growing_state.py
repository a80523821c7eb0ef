"""Exports any model whose state grows, such as a KV cache, as graphs with buffers that have room to spare.

In training every step appends an entry, and all rows of a batch are of one age. A served batch has rows of different
ages, so the graph gets buffers [batch, ..., target, ...] of a size that the server chooses, and `state.position`
int64 [batch] says how many entries of each row are real. The model's own `step` computes both: it appends the new
entry, which is then written to the row's place, and gives entries from `position` on no influence, as
`regard.training.models.protocol.SequenceModel` asks of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.contract.model_ports import NEXT, TARGET_AXIS, ModelPorts, name_ports
from regard.export.errors import TraceError
from regard.export.families.graphs import (
    SIZES,
    EncodeGraph,
    Model,
    TorchMachine,
    TraceableModel,
    describe_parts,
    fields_of,
    sources_of_two_sizes,
)
from regard.export.parity.greedy import END
from regard.export.parity.runtime import Arrays

POSITION = "position"
_ROOMS = (5, 6)  # entries of the buffers that are traced with; no batch or source of SIZES is as large


@torch.no_grad()
def find_growth(model: Model, *, vocabulary: int) -> dict[str, int]:
    """Return the fields of a model's state that grow, each with the axis on which a step appends an entry.

    Empty for a state of fixed size. Raises TraceError for one that grows in another way than the Protocol says.
    """
    inputs = sources_of_two_sizes(vocabulary)[0]
    memory, state = cast("tuple[tuple[Tensor, ...], tuple[Tensor, ...]]", model.encode(*inputs))
    _, following, _ = model.step(torch.full((len(inputs[0]),), END), state, memory)
    growth: dict[str, int] = {}
    for field, before, after in zip(fields_of(type(state)), state, following, strict=True):
        changed = [axis for axis, (old, new) in enumerate(zip(before.shape, after.shape, strict=True)) if old != new]
        if not changed:
            continue
        (axis, *others) = changed
        if others or axis == 0 or (before.shape[axis], after.shape[axis]) != (0, 1):
            raise TraceError(
                f"The state {field} goes from {tuple(before.shape)} to {tuple(after.shape)} in the first step, but a "
                "state that grows begins empty on one axis, on which each step appends one entry."
            )
        growth[field] = axis
    if growth:
        position = getattr(state, POSITION, None)
        if position is None or position.shape != (len(inputs[0]),) or position.dtype != torch.int64 or position.any():
            raise TraceError(
                f"The state {', '.join(growth)} grows, so the state needs a field {POSITION}, int64 [batch] and 0 at "
                "first, that counts the tokens fed so far."
            )
    return growth


class BufferedEncodeGraph(EncodeGraph):
    """source, source_length -> every field of memory, every field of state that does not begin empty or as zeros."""

    def __init__(self, model: Model, kept: tuple[int, ...]) -> None:
        super().__init__(model)
        self._kept = kept

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        memory, state = self.model.encode(*inputs)
        return (*memory, *(state[index] for index in self._kept))


class BufferedStepGraph(nn.Module):
    """token, every field of state, every field of memory -> scores, the next state, attention.

    Fields that grow are buffers. A model without attention has no such output.
    """

    def __init__(
        self,
        model: Model,
        memory: type[tuple[Tensor, ...]],
        state: type[tuple[Tensor, ...]],
        growth: Mapping[str, int],
        *,
        attends: bool,
    ) -> None:
        super().__init__()
        self.model = model
        self.memory = memory
        self.state = state
        self.growth = dict(growth)
        self.attends = attends

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        fields = fields_of(self.state)
        token, *parts = inputs
        buffers = dict(zip(fields, parts[: len(fields)], strict=True))
        position = buffers[POSITION]
        # Other rows may have left anything in a buffer, even NaN, which no weight of 0 makes harmless.
        cleared = {
            field: torch.where(_places(part, axis) < _rows(position, part), part, part.new_zeros(()))
            for field, axis in self.growth.items()
            for part in (buffers[field],)
        }
        state = self.state(*({**buffers, **cleared}[field] for field in fields))
        scores, appended, attention = self.model.step(token, state, self.memory(*parts[len(fields) :]))
        following = dict(zip(fields, appended, strict=True))
        for field, axis in self.growth.items():
            buffer, entry = buffers[field], following[field].select(axis, -1).unsqueeze(axis)
            following[field] = torch.where(_places(buffer, axis) == _rows(position, buffer), entry, buffer)
        outputs = (scores, *(following[field] for field in fields))
        return (*outputs, attention) if self.attends else outputs


# Not inference_mode: the samples made here are traced with, which refuses tensors that autograd may not see.
@torch.no_grad()
def open_growing_model(model: Model, growth: Mapping[str, int], *, vocabulary: int) -> TraceableModel:
    """Return the graphs of a model whose state grows, as `find_growth` found, with ports and samples to trace them by.

    Raises TraceError if an axis varies that is neither batch nor source nor one that grows.
    """
    sources = sources_of_two_sizes(vocabulary)
    seen = [_after_one_step(model, inputs) for inputs in sources]
    (memory, state, scores, attention), (other_memory, other_state, _, _) = seen
    fields = fields_of(type(state))
    kept = tuple(index for index, field in enumerate(fields) if field not in growth and field != POSITION)
    parts = describe_parts(state, other_state)
    grown = {field: index for index, field in enumerate(fields) if field in growth}
    for field, index in grown.items():
        axes = [*parts[index].axes]
        axes[growth[field]] = TARGET_AXIS
        parts[index] = parts[index]._replace(axes=tuple(axes))
    attends = attention.shape[1] > 0
    ports = name_ports(
        memory=describe_parts(memory, other_memory),
        state=parts,
        vocabulary=vocabulary,
        predictable=scores.shape[1],
        layers=attention.shape[1],
        heads=attention.shape[2],
        initial_state=[fields[index] for index in kept],
    )
    return TraceableModel(
        encode=BufferedEncodeGraph(model, kept).eval(),
        step=BufferedStepGraph(model, type(memory), type(state), growth, attends=attends).eval(),
        ports=ports,
        encode_samples=sources,
        step_samples=tuple(
            (
                torch.full((batch,), END),
                *(_sample(field, part, growth.get(field), room) for field, part in zip(fields, made[1], strict=True)),
                *made[0],
            )
            for (batch, _), room, made in zip(SIZES, _ROOMS, seen, strict=True)
        ),
    )


class RowByRowMachine:
    """A model whose state grows, run by torch: each row alone, with a state exactly as long as what it has generated.

    What graphs are compared with has thus no part in how they treat buffers and neighbours.
    """

    def __init__(self, opened: TraceableModel) -> None:
        self._encoder = TorchMachine(opened)
        self._graph = cast("BufferedStepGraph", opened.step)
        self._ports: ModelPorts = opened.ports

    def encode(self, inputs: Arrays) -> Arrays:
        """Read sources."""
        return self._encoder.encode(inputs)

    @torch.inference_mode()
    def step(self, inputs: Arrays) -> Arrays:
        """Predict a token; entries of a buffer that the model knows nothing of stay as they are."""
        graph, fields = self._graph, fields_of(self._graph.state)
        memories = [port.name for port in self._ports.step.inputs if port.role == "memory"]
        made: dict[str, list[NDArray[Any]]] = {port.name: [] for port in self._ports.step.outputs}
        for row, position in enumerate(inputs[f"state.{POSITION}"]):
            parts = {field: torch.tensor(inputs[f"state.{field}"][row : row + 1]) for field in fields}
            state = {
                field: part if field not in graph.growth else part.narrow(graph.growth[field], 0, int(position))
                for field, part in parts.items()
            }
            scores, following, attention = graph.model.step(
                torch.tensor(inputs["token"][row : row + 1]),
                graph.state(*state.values()),
                graph.memory(*(torch.tensor(inputs[name][row : row + 1]) for name in memories)),
            )
            for field, part in zip(fields, following, strict=True):
                axis = graph.growth.get(field)
                if axis is None:
                    made[f"{NEXT}state.{field}"].append(part.numpy())
                else:
                    buffer = parts[field].numpy()
                    place = [slice(None)] * buffer.ndim
                    place[axis] = slice(int(position), int(position) + 1)
                    buffer[tuple(place)] = part.select(axis, -1).unsqueeze(axis).numpy()
                    made[f"{NEXT}state.{field}"].append(buffer)
            made["scores"].append(scores.numpy())
            if graph.attends:
                made["attention"].append(attention.numpy())
        return {name: np.concatenate(rows) for name, rows in made.items()}


def _after_one_step(
    model: Model, inputs: tuple[Tensor, Tensor]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor, Tensor]:
    memory, state = model.encode(*inputs)
    scores, following, attention = model.step(torch.full((len(inputs[0]),), END), state, memory)
    return memory, following, scores, attention


def _sample(field: str, part: Tensor, axis: int | None, room: int) -> Tensor:
    """Return what a step is traced with for a field of state: buffers with room, rows of different ages."""
    if field == POSITION:
        return torch.arange(len(part)) % room
    if axis is None:
        return part
    shape = [*part.shape]
    shape[axis] = room
    return part.new_zeros(shape)


def _places(buffer: Tensor, axis: int) -> Tensor:
    """Return the number of each entry of a buffer, as broadcast to the buffer."""
    return torch.arange(buffer.shape[axis]).reshape([-1 if index == axis else 1 for index in range(buffer.dim())])


def _rows(position: Tensor, buffer: Tensor) -> Tensor:
    """Return position [batch] as broadcast to the buffer."""
    return position.reshape([-1] + [1] * (buffer.dim() - 1))

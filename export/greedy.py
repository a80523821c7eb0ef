"""Decodes greedily, the simplest way to put a model's graphs through what they will be used for.

It does not know what runs the model, nor text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from export.ports import BATCH, NEXT, TARGET_AXIS, GraphPorts, ModelPorts, Role
from export.runtime import Arrays, Machine

PAD, BEGIN, END, FIRST_WORD = 0, 2, 3, 4
LARGEST_TARGET = 256


class Step(NamedTuple):
    """What every machine made of one step of one batch."""

    outputs: tuple[Arrays, ...]  # of each machine
    chosen: tuple[NDArray[np.int64], ...]  # most likely tokens [batch] of each machine
    live: NDArray[np.bool_]  # rows [batch] that had not ended before


def greedy_steps(
    machines: Sequence[Machine], ports: ModelPorts, sources: Sequence[Sequence[int]], *, batch: int = 32
) -> Iterator[Step]:
    """Decode sources, ids that end in </s>, and yield every step.

    The first machine decides which token comes next, so that all meet the same tokens; each keeps its own memory and
    states. A row ends at </s> or at 2 * source tokens + 10.
    """
    for start in range(0, len(sources), batch):
        rows = sources[start : start + batch]
        limits = np.array([min(2 * len(row) + 10, LARGEST_TARGET) for row in rows])
        inputs = pad_sources(rows)
        memories = tuple(machine.encode(inputs) for machine in machines)
        room = int(limits.max())
        outputs: tuple[Arrays, ...] = tuple(first_state(ports.step, memory, len(rows), room) for memory in memories)
        token = np.full(len(rows), BEGIN, dtype=np.int64)
        live = np.ones(len(rows), dtype=np.bool_)
        length = 0
        while live.any():
            length += 1
            outputs = tuple(
                machine.step(step_inputs(ports.step, token, state, memory))
                for machine, state, memory in zip(machines, outputs, memories, strict=True)
            )
            # <pad>, <unk> and <s> are never generated.
            chosen = tuple(made["scores"][:, END:].argmax(axis=1).astype(np.int64) + END for made in outputs)
            yield Step(outputs, chosen, live)
            token = chosen[0]
            live = live & (token != END) & (length < limits)


def pad_sources(sources: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """Return the encode graph's inputs for rows of ids."""
    length = np.array([len(row) for row in sources], dtype=np.int64)
    source = np.full((len(sources), int(length.max())), PAD, dtype=np.int64)
    for row, ids in enumerate(sources):
        source[row, : len(ids)] = ids
    return {"source": source, "source_length": length}


def first_state(ports: GraphPorts, memory: Arrays, batch: int, room: int) -> dict[str, NDArray[Any]]:
    """Return the states that the first step reads: what `encode` gave, zeros for what it did not.

    Buffers have room for so many entries.
    """
    sizes = {BATCH: batch, TARGET_AXIS: room}
    return {
        port.name: memory[port.name]
        if port.name in memory
        else np.zeros([sizes[axis] if isinstance(axis, str) else axis for axis in port.axes], port.dtype)
        for port in ports.inputs
        if port.role is Role.STATE
    }


def step_inputs(
    ports: GraphPorts, token: NDArray[np.int64], state: Arrays, memory: Arrays
) -> Mapping[str, NDArray[Any]]:
    """Return the step graph's inputs; state may be named as `first_state` or as the previous step named it."""
    inputs: dict[str, NDArray[Any]] = {}
    for port in ports.inputs:
        match port.role:
            case Role.TOKEN:
                inputs[port.name] = token
            case Role.STATE:
                inputs[port.name] = state[NEXT + port.name] if NEXT + port.name in state else state[port.name]
            case _:
                inputs[port.name] = memory[port.name]
    return inputs


def random_sources(count: int, length: int, vocabulary: int, rng: np.random.Generator) -> list[list[int]]:
    """Return rows of random words that end in </s>, at least one of them of the full length."""
    lengths = rng.integers(1, length + 1, size=count)
    lengths[rng.integers(count)] = length
    return [[*map(int, rng.integers(FIRST_WORD, vocabulary, size=int(size) - 1)), END] for size in lengths]

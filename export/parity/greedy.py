"""Decodes greedily, the simplest way to put a model's graphs through what they will be used for.

It does not know what runs the model, nor text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from regard.contract.model_ports import BATCH, NEXT, TARGET_AXIS, GraphPorts, ModelPorts
from regard.export.parity.runtime import Arrays, Machine

PAD, BEGIN, END, FIRST_WORD = 0, 2, 3, 4
LARGEST_TARGET = 256
LARGEST_CAPTION = 40

# Ids that end in </s>, or pixels uint8 [height, width, 3] for models that read pictures.
Source: TypeAlias = Sequence[int] | NDArray[np.uint8]


class Step(NamedTuple):
    """What every machine made of one step of one batch."""

    outputs: tuple[Arrays, ...]  # of each machine
    chosen: tuple[NDArray[np.int64], ...]  # most likely tokens [batch] of each machine
    live: NDArray[np.bool_]  # rows [batch] that had not ended before


def greedy_steps(
    machines: Sequence[Machine], ports: ModelPorts, sources: Sequence[Source], *, batch: int = 32
) -> Iterator[Step]:
    """Decode sources and yield every step.

    The first machine decides which token comes next, so that all meet the same tokens; each keeps its own memory and
    states. A row ends at </s> or at 2 * source tokens + 10, that of a picture at LARGEST_CAPTION.
    """
    for start in range(0, len(sources), batch):
        rows = sources[start : start + batch]
        limits = np.array(
            [LARGEST_CAPTION if ports.picture else min(2 * len(row) + 10, LARGEST_TARGET) for row in rows]
        )
        inputs = encode_inputs(ports, rows)
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


def encode_inputs(ports: ModelPorts, sources: Sequence[Source]) -> dict[str, NDArray[Any]]:
    """Return the encode graph's inputs for some sources."""
    if ports.picture is not None:
        (port,) = ports.encode.inputs
        return {port.name: np.stack([np.asarray(source, np.uint8) for source in sources])}
    return dict(pad_sources([cast("Sequence[int]", source) for source in sources]))


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
        if port.role == "state"
    }


def step_inputs(
    ports: GraphPorts, token: NDArray[np.int64], state: Arrays, memory: Arrays, *, scores: int = 0
) -> Mapping[str, NDArray[Any]]:
    """Return the step graph's inputs; state may be named as `first_state` or as the previous step named it.

    scores says which of several scores are wanted, the first ones being those of all tokens.
    """
    inputs: dict[str, NDArray[Any]] = {}
    for port in ports.inputs:
        match port.role:
            case "token":
                inputs[port.name] = token
            case "state":
                inputs[port.name] = state[NEXT + port.name] if NEXT + port.name in state else state[port.name]
            case "scored_rows":
                rows = np.zeros([int(axis) for axis in port.axes], np.int64)
                rows[scores] = len(token)
                inputs[port.name] = rows
            case _:
                inputs[port.name] = memory[port.name]
    return inputs


def random_inputs(
    ports: ModelPorts, count: int, length: int, rng: np.random.Generator
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the encode graph's inputs for random sources, and how many of their positions are real [batch].

    Of pictures all positions are, so that length has to be their number.
    """
    if ports.picture is None:
        inputs = pad_sources(random_sources(count, length, ports.vocabulary, rng))
        return dict(inputs), inputs["source_length"]
    return encode_inputs(ports, random_pictures(count, ports.picture, rng)), np.full(count, length)


def random_pictures(count: int, shape: tuple[int, ...], rng: np.random.Generator) -> list[NDArray[np.uint8]]:
    """Return noise of some brightness on squares of some sizes: nothing that a network has learnt from."""
    pictures: list[NDArray[np.uint8]] = []
    for _ in range(count):
        square = int(rng.integers(1, max(shape[0] // 2, 2)))
        coarse = rng.integers(0, 256, size=[-(-shape[0] // square), -(-shape[1] // square), shape[2]], dtype=np.uint8)
        pictures.append(coarse.repeat(square, axis=0).repeat(square, axis=1)[: shape[0], : shape[1]])
    return pictures


def random_sources(count: int, length: int, vocabulary: int, rng: np.random.Generator) -> list[list[int]]:
    """Return rows of random words that end in </s>, at least one of them of the full length."""
    lengths = rng.integers(1, length + 1, size=count)
    lengths[rng.integers(count)] = length
    return [[*map(int, rng.integers(FIRST_WORD, vocabulary, size=int(size) - 1)), END] for size in lengths]

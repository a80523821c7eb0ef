"""Compares a candidate with its reference on every port, over sizes, paddings and steps, and says how far off it is.

It does not know what runs either of them: torch, ONNX Runtime or a few lines of numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.contract.model_ports import NEXT, TARGET_AXIS, ModelPorts
from regard.export.errors import ParityError
from regard.export.parity.greedy import BEGIN, Source, first_state, greedy_steps, random_inputs, step_inputs
from regard.export.parity.runtime import Arrays, Machine
from regard.v1 import bundle_pb2

SPARE = 3  # entries of a buffer that no step needs
RESTART = 3  # every so many steps a row begins anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is tried: every batch with every length, and so many steps of each.

    Now and then a row begins anew beside others that go on, as rows do that share a batch. Buffers have more room than
    is needed; where nothing was written they hold large values and NaN.
    """

    batches: tuple[int, ...] = (1, 2, 3, 5)
    source_lengths: tuple[int, ...] = (1, 2, 9, 16, 50)
    steps: int = 4
    seed: int = 1


def measure(
    reference: Machine,
    candidate: Machine,
    ports: ModelPorts,
    *,
    grid: Grid,
    tolerances: Mapping[str, float],
    sources: Sequence[Source],
) -> bundle_pb2.ParityRecord:
    """Compare over the grid, and greedy decoding over sources.

    Both get the same inputs at every step, so that differences do not add up; only greedy decoding leaves each its own
    states. tolerances holds the largest absolute difference allowed for a port, "" for all ports that it does not name.

    Raises ParityError, naming the port, shapes and difference, if one is exceeded, if a value is NaN or infinite, or
    if attention is not what it must be: rows that sum to 1 over real positions, exactly 0 elsewhere, all 0 for an empty
    row.
    """
    worst = {port.name: 0.0 for port in (*ports.encode.outputs, *ports.step.outputs)}
    for where, expected, got in _pairs(reference, candidate, ports, grid):
        for name, array in expected.items():
            _finite(f"{name} of the model", array, where)
            _finite(name, got[name], where)
            if array.shape != got[name].shape:
                raise ParityError(f"{name} has shape {got[name].shape} and not {array.shape} at {where}.")
            difference = float(np.abs(array.astype(np.float64) - got[name].astype(np.float64)).max(initial=0.0))
            worst[name] = max(worst[name], difference)
            tolerance = tolerances.get(name, tolerances[""])
            if difference > tolerance:
                raise ParityError(f"{name} differs by {difference:.3g} at {where}, but {tolerance:.3g} is allowed.")
    return bundle_pb2.ParityRecord(
        tolerance=max(tolerances.values()),
        batches=grid.batches,
        source_lengths=_lengths(grid, ports),
        steps=_steps(grid, ports),
        ports=[bundle_pb2.PortDifference(port=name, worst_absolute=value) for name, value in sorted(worst.items())],
        greedy_agreement=greedy_agreement(reference, candidate, ports, sources),
    )


def greedy_agreement(reference: Machine, candidate: Machine, ports: ModelPorts, sources: Sequence[Source]) -> float:
    """Return the share of greedy choices that are the same, 0 to 1; one difference does not bring on others."""
    same = total = 0
    for step in greedy_steps((reference, candidate), ports, sources):
        same += int((step.chosen[0] == step.chosen[1])[step.live].sum())
        total += int(step.live.sum())
    return same / max(total, 1)


def _pairs(
    reference: Machine, candidate: Machine, ports: ModelPorts, grid: Grid
) -> Iterator[tuple[str, Arrays, Arrays]]:
    """Yield where we are, and what reference and candidate make of the same inputs."""
    rng = np.random.default_rng(grid.seed)
    for batch in grid.batches:
        for length in _lengths(grid, ports):
            inputs, real = random_inputs(ports, batch, length, rng)
            where = f"batch {batch}, length {length}"
            memory = reference.encode(inputs)
            yield (
                f"{where}, encode",
                _without_padding(memory, real, ports),
                _without_padding(candidate.encode(inputs), real, ports),
            )
            first = first_state(ports.step, memory, batch, _steps(grid, ports) + SPARE)
            state: Arrays = first
            age = np.zeros(batch, np.int64)
            feed: Arrays = {}
            # All tokens and the vocabularies of target languages take turns, each at least once.
            for number in range(1, _steps(grid, ports) + 1):
                again: NDArray[np.bool_] = np.equal((np.arange(batch) + number) % RESTART, 0)
                age[again] = 0
                token = rng.integers(BEGIN, ports.predictable, size=batch)
                begun = _begin_again(state, first, again, age, ports)
                feed = step_inputs(ports.step, token, begun, memory, scores=(number - 1) % len(ports.scores))
                state, got = reference.step(feed), candidate.step(feed)
                age += 1
                place = f"{where}, step {number}"
                yield place, _written(state, age, ports), _written(got, age, ports)
                if ports.layers:
                    _check_attention(got["attention"], real, place)
            _check_empty_row(candidate, ports, feed, age, where)


def _steps(grid: Grid, ports: ModelPorts) -> int:
    return max(grid.steps, len(ports.scores))


def _lengths(grid: Grid, ports: ModelPorts) -> tuple[int, ...]:
    return grid.source_lengths if ports.cells is None else (ports.cells,)


def _begin_again(
    state: Arrays, first: Arrays, again: NDArray[np.bool_], age: NDArray[np.int64], ports: ModelPorts
) -> dict[str, NDArray[Any]]:
    """Return states in which some rows are as at first, and buffers are spoilt beyond what rows have written."""
    begun: dict[str, NDArray[Any]] = {}
    for port in ports.step.inputs:
        if port.role != "state":
            continue
        array = state[NEXT + port.name] if NEXT + port.name in state else state[port.name]
        if TARGET_AXIS in port.axes:
            axis = port.axes.index(TARGET_AXIS)
            garbage = np.full(array.shape[axis], np.nan, np.float32)
            garbage[::2] = 1e4
            begun[port.name] = np.where(_entries(array, axis, age), array, _along(garbage, array.ndim, axis))
        else:
            begun[port.name] = np.where(_along(again, array.ndim, 0), first[port.name], array)
    return begun


def _written(outputs: Arrays, age: NDArray[np.int64], ports: ModelPorts) -> dict[str, NDArray[Any]]:
    """Return outputs with 0 where a buffer holds nothing yet: what stands there is nobody's."""
    seen = dict(outputs)
    for port in ports.step.outputs:
        if TARGET_AXIS in port.axes:
            array = outputs[port.name]
            seen[port.name] = np.where(_entries(array, port.axes.index(TARGET_AXIS), age), array, np.float32(0))
    return seen


def _without_padding(memory: Arrays, real: NDArray[np.int64], ports: ModelPorts) -> dict[str, NDArray[Any]]:
    """Return memory with 0 on padding, which the mask hides: what stands there is nobody's."""
    seen = dict(memory)
    for port in ports.encode.outputs:
        if port.role == "memory" and port.dtype.startswith("float") and "source" in port.axes:
            array = memory[port.name]
            axis = port.axes.index("source")
            seen[port.name] = np.where(_entries(array, axis, real), array, np.float32(0))
    return seen


def _entries(array: NDArray[Any], axis: int, count: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether an entry on an axis is among the first ones of its row, broadcast to array."""
    places = _along(np.arange(array.shape[axis], dtype=np.int64), array.ndim, axis)
    return np.less(places, _along(count, array.ndim, 0))


def _along(values: NDArray[Any], axes: int, axis: int) -> NDArray[Any]:
    return values.reshape([-1 if index == axis else 1 for index in range(axes)])


def _finite(name: str, array: NDArray[Any], where: str) -> None:
    if not np.isfinite(array).all():
        raise ParityError(f"{name} has a value that is NaN or infinite at {where}.")


def _check_attention(attention: NDArray[np.float32], length: NDArray[np.int64], where: str) -> None:
    padding: NDArray[np.bool_] = np.greater_equal(np.arange(attention.shape[-1], dtype=np.int64), length[:, None])
    outside = np.where(padding[:, None, None, :], attention, 0.0)
    if (outside != 0.0).any():
        raise ParityError(f"attention looks at padding with weight {np.abs(outside).max():.3g} at {where}.")
    error = float(np.abs(attention.sum(axis=-1) - 1.0).max())
    if error > 1e-5:
        raise ParityError(f"a row of attention sums to 1 only within {error:.3g} at {where}.")


def _check_empty_row(candidate: Machine, ports: ModelPorts, feed: Arrays, age: NDArray[np.int64], where: str) -> None:
    """Mask everything, as no caller may: softmax over nothing is where NaN comes from."""
    masks = {port.name for port in ports.step.inputs if port.role == "memory" and port.dtype == "bool"}
    if not masks:
        return
    emptied = {name: np.zeros_like(array) if name in masks else array for name, array in feed.items()}
    outputs = _written(candidate.step(emptied), age, ports)
    for name, array in outputs.items():
        _finite(name, array, f"{where}, nothing to look at")
    if ports.layers and (outputs["attention"] != 0.0).any():
        raise ParityError(f"attention is not 0 at {where}, nothing to look at.")

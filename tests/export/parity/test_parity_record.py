"""Parity is refused for values that are wrong, missing or impossible, by the name of the tensor (X01, X03, X05)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.export.errors import ParityError
from regard.export.families.null import NullMachine, null_ports
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.runtime import Arrays

SOURCES = [[4, 3], [4, 4, 4, 3]]
GRID = Grid(batches=(1, 3), source_lengths=(1, 5), steps=2)


Change = Callable[[NDArray[Any]], NDArray[Any]]


class Spoiled:
    """The null model with one tensor changed."""

    def __init__(self, port: str, change: Change) -> None:
        self._port = port
        self._change = change
        self._machine = NullMachine()

    def encode(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        return self._changed(self._machine.encode(inputs))

    def step(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        return self._changed(self._machine.step(inputs))

    def _changed(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: self._change(array) if name == self._port else array for name, array in arrays.items()}


def planted(value: float) -> Change:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        changed = array.copy()
        changed.flat[-1] = value
        return changed

    return change


def refused(candidate: Spoiled, *, reference: Any = None, tolerance: float = 1e-4) -> str:
    with pytest.raises(ParityError) as caught:
        measure(
            reference or NullMachine(), candidate, null_ports(), grid=GRID, tolerances={"": tolerance}, sources=SOURCES
        )
    return str(caught.value)


def test_record_holds_the_worst_difference_of_every_port() -> None:
    candidate = Spoiled("scores", lambda scores: scores + np.float32(3e-5))
    record = measure(NullMachine(), candidate, null_ports(), grid=GRID, tolerances={"": 1e-4}, sources=SOURCES)
    worst = {port.port: port.worst_absolute for port in record.ports}
    assert worst["scores"] == pytest.approx(3e-5, rel=0.2)
    assert worst["attention"] == worst["memory.weights"] == worst["memory.mask"] == worst["next.state.count"] == 0
    assert (list(record.batches), list(record.source_lengths), record.steps) == ([1, 3], [1, 5], 2)
    assert record.greedy_agreement == 1.0


@pytest.mark.parametrize("port", ["memory.weights", "next.state.count", "scores"])
def test_difference_beyond_tolerance_is_refused_by_name(port: str) -> None:
    message = refused(Spoiled(port, lambda array: array + np.float32(2e-4)))
    assert port in message
    assert "0.0001 is allowed" in message


def test_difference_at_one_length_only_is_found() -> None:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        return array + np.float32(1) if array.shape[1] > 1 else array

    assert "length 5" in refused(Spoiled("memory.weights", change))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("port", ["memory.weights", "scores", "attention"])
def test_value_that_is_no_number_is_refused_by_name(port: str, value: float) -> None:
    assert f"{port} has a value that is NaN or infinite" in refused(Spoiled(port, planted(value)), tolerance=1e9)


def test_model_that_makes_nan_itself_is_refused() -> None:
    spoiled = Spoiled("scores", planted(np.nan))
    assert "scores of the model" in refused(spoiled, reference=spoiled)


def test_attention_on_padding_is_refused_however_little() -> None:
    # Both agree, so only the promise itself can refuse it.
    def leak(attention: NDArray[Any]) -> NDArray[Any]:
        return np.maximum(attention, np.float32(1e-12)) if attention.any() else attention

    spoiled = Spoiled("attention", leak)
    assert "looks at padding" in refused(spoiled, reference=spoiled)


def test_attention_that_does_not_sum_to_one_is_refused() -> None:
    spoiled = Spoiled("attention", lambda attention: attention * np.float32(0.999))
    assert "sums to 1 only within" in refused(spoiled, reference=spoiled)


def test_attention_over_nothing_must_be_nothing() -> None:
    def uniform_if_empty(attention: NDArray[Any]) -> NDArray[Any]:
        return attention if attention.any() else np.full_like(attention, 1 / attention.shape[-1])

    spoiled = Spoiled("attention", uniform_if_empty)
    assert "nothing to look at" in refused(spoiled, reference=spoiled)


def test_another_shape_is_refused() -> None:
    assert "has shape" in refused(Spoiled("scores", lambda scores: scores[:, :-1]))


def test_greedy_agreement_counts_a_difference_once() -> None:
    def prefer_another_word(scores: NDArray[Any]) -> NDArray[Any]:
        return np.roll(scores, 1, axis=1)

    candidate = Spoiled("scores", prefer_another_word)
    record = measure(NullMachine(), candidate, null_ports(), grid=GRID, tolerances={"": 1e9}, sources=SOURCES)
    assert record.greedy_agreement == 0.0

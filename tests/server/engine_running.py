"""Runs an engine over fake models for tests: calls that wait for outcomes, clocks and gates that tests move by hand.

It knows no test.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.server import engine_reference as reference
from tests.server.engine_fakes import (
    FakeDecoder,
    FakeObserver,
    Prefix,
    constant_scores,
)

from regard.contract.names import ModelKey
from regard.server.engine.decoder import Decoder
from regard.server.engine.engine import Engine, EngineSettings, Outcome, Ticket
from regard.server.request import DecodeRequest, DecodeResult

KEY = ModelKey("fake", "1")
SECONDS = 120.0  # Ends what hangs; no test passes or fails by it.


class Call:
    """Outcomes of one submission."""

    def __init__(self, requests: Sequence[DecodeRequest]) -> None:
        self.requests = list(requests)
        self.outcomes: list[list[Outcome]] = [[] for _ in requests]
        self.ticket: Ticket | None = None
        self._left = threading.Semaphore(0)

    def done(self, index: int, outcome: Outcome) -> None:
        self.outcomes[index].append(outcome)
        self._left.release()

    def wait(self) -> list[Outcome]:
        for _ in self.requests:
            assert self._left.acquire(timeout=SECONDS), "a segment was not answered"
        assert all(len(outcomes) == 1 for outcomes in self.outcomes), "a segment was answered twice"
        return [outcomes[0] for outcomes in self.outcomes]

    def results(self) -> list[DecodeResult]:
        outcomes = self.wait()
        results = [outcome for outcome in outcomes if isinstance(outcome, DecodeResult)]
        assert len(results) == len(outcomes), outcomes
        return results


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """Holds steps back one by one; a decoder calls it before each."""

    def __init__(self) -> None:
        self._arrived = threading.Semaphore(0)
        self._open = threading.Semaphore(0)
        self._always = False

    def __call__(self, sources: list[Prefix]) -> None:
        if not self._always:
            self._arrived.release()
            assert self._open.acquire(timeout=SECONDS)

    def wait(self) -> None:
        """Return when a step is held back."""
        assert self._arrived.acquire(timeout=SECONDS)

    def let_one(self) -> None:
        self._open.release()

    def let_all(self) -> None:
        self._always = True
        for _ in range(100):
            self._open.release()


@contextmanager
def running(
    decoder: Decoder,
    *,
    observer: FakeObserver | None = None,
    clock: Callable[[], float] = time.monotonic,
    others: dict[ModelKey, FakeDecoder] | None = None,
    **values: Any,
) -> Generator[Engine]:
    engine = Engine({KEY: decoder, **(others or {})}, EngineSettings(**values), observer or FakeObserver(), clock)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop(0.0)


def submit(engine: Engine, *requests: DecodeRequest, key: ModelKey = KEY) -> Call:
    call = Call(requests)
    call.ticket = engine.submit(key, requests, call.done)
    return call


def cancel(engine: Engine, call: Call) -> None:
    assert call.ticket is not None
    engine.cancel(call.ticket)


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def endless() -> FakeDecoder:
    return FakeDecoder(constant_scores({4: 0.6, 5: 0.4}, vocabulary=12))


def check(outcome: DecodeResult, asked: DecodeRequest, decoder: FakeDecoder) -> None:
    expected = reference.search(decoder.score, asked, limit=decoder.facts.target_limit(asked))
    found = [tuple(hypothesis.tokens.tolist()) for hypothesis in outcome.hypotheses]
    assert found == [wanted.tokens for wanted in expected]
    assert decoder.attend is not None
    for hypothesis, wanted in zip(outcome.hypotheses, expected, strict=True):
        assert hypothesis.score == pytest.approx(wanted.score, abs=1e-4)
        np.testing.assert_array_equal(hypothesis.attention, reference.attention(decoder.attend, asked, wanted.tokens))

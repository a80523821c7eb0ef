"""The engine with its threads: every segment is answered exactly once, rightly, whatever happens around it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.engine_fakes import (
    CACHES,
    END,
    Cache,
    FakeDecoder,
    FakeObserver,
    Prefix,
    hashed_attention,
    hashed_scores,
    request,
)
from tests.server.engine_running import (
    KEY,
    SECONDS,
    Call,
    Clock,
    Gate,
    cancel,
    check,
    endless,
    eventually,
    running,
    submit,
)

from regard.contract.names import ModelKey
from regard.server.engine.engine import Engine, EngineSettings
from regard.server.errors import (
    CallCancelled,
    DeadlinePassed,
    InvalidRequest,
    NotServing,
    QueueFull,
    SettingsError,
)
from regard.server.request import DecodeRequest, DecodeResult

sources = st.lists(st.integers(4, 11), min_size=0, max_size=40).map(lambda ids: [*ids, END])
requests = st.builds(
    request,
    sources,
    beam_size=st.sampled_from([1, 1, 1, 2, 4]),
    forced=st.one_of(st.none(), st.none(), st.lists(st.integers(4, 11), max_size=4)),
    priority=st.integers(-1, 1),
    deadline=st.sampled_from([float("inf")] * 4 + [0.0]),
    max_length=st.integers(1, 12),
)


@pytest.mark.parametrize("cache", CACHES)
@settings(max_examples=25, deadline=None)
@given(
    calls=st.lists(st.lists(requests, max_size=6), min_size=1, max_size=6),
    cancelled=st.sets(st.integers(0, 5)),
    workers=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_every_segment_is_answered_once_and_as_if_it_had_been_alone(
    cache: Cache, calls: list[list[DecodeRequest]], cancelled: set[int], workers: int, seed: int
) -> None:
    score, attend = hashed_scores(seed=seed), hashed_attention()
    decoder = FakeDecoder(score, attend, cache)
    with running(decoder, workers=workers, rows=8, widest_beam=4, encode_cells=64) as engine:
        made = [Call(asked) for asked in calls]

        def play(number: int) -> None:
            made[number].ticket = engine.submit(KEY, calls[number], made[number].done)
            if number in cancelled:
                time.sleep(0.0005 * number)
                cancel(engine, made[number])

        threads = [threading.Thread(target=play, args=(number,)) for number in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, call in enumerate(made):
            for asked, outcome in zip(call.requests, call.wait(), strict=True):
                if isinstance(outcome, CallCancelled):
                    assert number in cancelled
                elif isinstance(outcome, DeadlinePassed):
                    assert asked.context.deadline == 0.0
                    assert outcome.where == "queue"
                else:
                    assert isinstance(outcome, DecodeResult)
                    assert asked.context.deadline > 0.0
                    check(outcome, asked, decoder)
        assert engine.waiting == 0
        eventually(lambda: engine.running == 0)
        assert max(map(len, decoder.steps), default=0) <= 8
        assert engine.alive()


def test_a_call_without_segments_is_taken_and_never_reported() -> None:
    with running(endless()) as engine:
        assert submit(engine).wait() == []


def test_a_full_queue_refuses_a_call_whole_and_loses_nothing() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1, queue_limit=3) as engine:
        first = submit(engine, request([4, END]))
        gate.wait()
        waiting = submit(engine, request([5, END]), request([6, END]))
        with pytest.raises(QueueFull):
            submit(engine, request([7, END]), request([8, END]))
        assert engine.waiting == 2
        last = submit(engine, request([9, END]))
        gate.let_all()
        for call in (first, waiting, last):
            call.results()
        assert {source for _, batch in decoder.encoded for source in batch} == {(one, END) for one in (4, 5, 6, 9)}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (request([]), "source"),
        (request([4] * 64 + [END]), "source"),
        (request([-1, END]), "source"),
        (request([12, END]), "source"),
        (request([4, END], forced=[12]), "forced_target"),
        (request([4, END], forced=[4] * 41), "forced_target"),
        (request([4, END], beam_size=0, n_best=1), "search.beam_size"),
        (request([4, END], beam_size=17), "search.beam_size"),
        (request([4, END], beam_size=10**9), "search.beam_size"),
        (request([4, END], beam_size=2, n_best=3), "search.n_best"),
        (request([4, END], beam_size=2, n_best=0), "search.n_best"),
        (request([4, END], max_length=0), "search.max_length"),
        (request([4, END], min_length=9, max_length=8), "search.min_length"),
        (request([4, END], length_penalty=float("nan")), "search.length_penalty"),
        (request([4, END], length_penalty=1e9), "search.length_penalty"),
    ],
)
def test_a_segment_beyond_the_limits_is_refused_before_anything_of_its_call_waits(
    asked: DecodeRequest, field: str
) -> None:
    decoder = endless()
    with running(decoder) as engine:
        with pytest.raises(InvalidRequest) as caught:
            submit(engine, request([4, END]), asked)
        assert caught.value.field == f"segments[1].{field}"
        assert engine.waiting == 0
    assert decoder.encoded == []


@pytest.mark.parametrize("length", [63, 64])
def test_the_longest_source_is_decoded(length: int) -> None:
    with running(endless()) as engine:
        submit(engine, request([4] * (length - 1) + [END])).results()


def test_the_widest_beam_fits_in_the_widest_pool() -> None:
    decoder = endless()
    decoder.max_source_tokens = 300
    decoder.__post_init__()
    with running(decoder, workers=1) as engine:
        submit(engine, *(request([4] * 290 + [END], beam_size=16, max_length=3) for _ in range(3))).results()


def test_an_unknown_model_and_an_engine_that_does_not_run_take_nothing() -> None:
    engine = Engine({KEY: endless()}, EngineSettings(), FakeObserver())
    with pytest.raises(NotServing):
        submit(engine, request([4, END]))
    engine.start()
    with pytest.raises(NotServing):
        submit(engine, request([4, END]), key=ModelKey("other", "1"))
    stopping = threading.Thread(target=engine.stop, args=(3600.0,), daemon=True)
    stopping.start()
    stopping.join(SECONDS)
    assert not stopping.is_alive()  # With nothing to finish there is no grace to wait for.
    with pytest.raises(NotServing):
        submit(engine, request([4, END]))


def test_the_observer_is_told_of_steps_rows_tokens_and_waiting() -> None:
    observer, clock = FakeObserver(), Clock()

    def tick(sources: list[Prefix]) -> None:
        clock.now += 0.5

    decoder = endless()
    decoder.before_step = tick
    decoder.before_encode = lambda sources: tick(sources)
    with running(decoder, observer=observer, clock=clock, workers=1) as engine:
        (result,) = submit(engine, request([4, 5, 6, END], max_length=3)).results()
        eventually(lambda: observer.running_now == 0)
    assert observer.steps == [(0.5, 1, 0.75)] * 3
    assert observer.token_counts == {"source": 4, "target": 3}
    assert observer.queues == [0.0]
    assert observer.waiting_now == 0
    assert result.timing == (0.0, 0.5, 1.5, 3, 1.0)


@pytest.mark.parametrize(
    "values",
    [
        {"workers": 0},
        {"rows": 0},
        {"rows": 15},
        {"queue_limit": 0},
        {"encode_cells": 0},
        {"widths": ()},
        {"widths": (32, 16)},
        {"stall_seconds": 0.0},
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(values))):
        EngineSettings(**values)

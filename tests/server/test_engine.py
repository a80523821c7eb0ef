"""The engine with its threads: every segment is answered exactly once, rightly, whatever happens around it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine import Engine, EngineSettings, Outcome, Ticket
from server.errors import (
    CallCancelled,
    DeadlinePassed,
    EngineFault,
    InvalidRequest,
    NotServing,
    QueueFull,
    SettingsError,
)
from server.request import DecodeRequest, DecodeResult, ModelKey
from server.scheduler import Job, PoolKey
from server.slots import target_limit
from server.worker import Worker
from tests.server import engine_reference as reference
from tests.server.engine_fakes import (
    CACHES,
    END,
    Cache,
    FakeDecoder,
    FakeObserver,
    Prefix,
    constant_scores,
    hashed_look,
    hashed_scores,
    request,
)

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
    decoder: FakeDecoder,
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
    score, look = hashed_scores(seed=seed), hashed_look()
    decoder = FakeDecoder(score, look, cache)
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


def check(outcome: DecodeResult, asked: DecodeRequest, decoder: FakeDecoder) -> None:
    expected = reference.search(decoder.score, asked, limit=target_limit(asked, decoder.facts))
    found = [tuple(hypothesis.tokens.tolist()) for hypothesis in outcome.hypotheses]
    assert found == [wanted.tokens for wanted in expected]
    assert decoder.look is not None
    for hypothesis, wanted in zip(outcome.hypotheses, expected, strict=True):
        assert hypothesis.score == pytest.approx(wanted.score, abs=1e-4)
        np.testing.assert_array_equal(hypothesis.attention, reference.attention(decoder.look, asked, wanted.tokens))


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


def test_cancelling_frees_the_rows_before_the_next_step() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1) as engine:
        call = submit(engine, request([5, END], beam_size=3), request([6, END]))
        other = submit(engine, request([4, END]))
        for _ in range(4):
            gate.wait()
            gate.let_one()
        gate.wait()
        assert len(decoder.steps[-1]) == 5
        cancel(engine, call)
        gate.let_one()
        gate.wait()
        assert decoder.steps[-1] == [(4, END)]
        assert all(isinstance(outcome, CallCancelled) for outcome in call.wait())
        gate.let_all()
        other.results()


def test_cancelling_or_a_deadline_during_the_encoding_comes_before_the_next_step() -> None:
    clock = Clock()
    decoder = endless()
    with running(decoder, clock=clock, workers=1) as engine:
        given_up = Call([request([6, END])])

        def meanwhile(sources: list[Prefix]) -> None:
            if (5, END) in sources:
                clock.now = 1.0
                cancel(engine, given_up)

        decoder.before_encode = meanwhile
        given_up.ticket = engine.submit(KEY, given_up.requests, given_up.done)
        late = submit(engine, request([5, END], deadline=1.0))
        assert isinstance(late.wait()[0], DeadlinePassed)
        assert isinstance(given_up.wait()[0], CallCancelled)
    assert all((5, END) not in sources for sources in decoder.steps)


def test_cancelling_twice_or_after_the_answer_does_nothing() -> None:
    with running(endless()) as engine:
        call = submit(engine, request([4, END]))
        call.results()
        cancel(engine, call)
        cancel(engine, call)
        submit(engine, request([5, END])).results()


def test_a_segment_that_is_cancelled_while_it_waits_never_reaches_the_model() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1, rows=1, widest_beam=1) as engine:
        first = submit(engine, request([4, END]))
        gate.wait()
        call = submit(engine, request([5, END]))
        cancel(engine, call)
        assert engine.waiting == 0
        gate.let_all()
        assert isinstance(call.wait()[0], CallCancelled)
        first.results()
        assert [batch for _, batch in decoder.encoded] == [[(4, END)]]


def test_a_deadline_that_passes_in_the_queue_is_answered_and_never_reaches_the_model() -> None:
    clock, gate = Clock(), Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, clock=clock, workers=1, rows=1, widest_beam=1) as engine:
        first = submit(engine, request([4, END]))
        gate.wait()
        late = submit(engine, request([5, END], deadline=1.0))
        clock.now = 1.0
        gate.let_one()
        outcome = late.wait()[0]
        assert isinstance(outcome, DeadlinePassed)
        assert outcome.where == "queue"
        gate.let_all()
        first.results()
        assert [batch for _, batch in decoder.encoded] == [[(4, END)]]


def test_a_deadline_that_passes_while_decoding_frees_the_rows_before_the_next_step() -> None:
    clock, gate = Clock(), Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, clock=clock, workers=1) as engine:
        call = submit(engine, request([5, END], deadline=1.0), request([4, END]))
        gate.wait()
        clock.now = 1.0
        gate.let_one()
        gate.wait()
        assert decoder.steps[-1] == [(4, END)]
        gate.let_all()
        late, fine = call.wait()
        assert isinstance(late, DeadlinePassed)
        assert late.where == "decode"
        assert isinstance(fine, DecodeResult)


def test_a_step_that_raises_fails_its_rows_with_a_logged_id_and_the_engine_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    score = hashed_scores(ending=-100.0)

    def explode(sources: list[Prefix]) -> None:
        if (9, END) in sources:
            raise ValueError("the device is on fire")

    decoder = FakeDecoder(score, before_step=explode)
    with running(decoder, workers=1) as engine, caplog.at_level(logging.ERROR):
        # The wide source is stepped in a pool of its own.
        call = submit(engine, request([9, END]), request([4, END]), request([4] * 20 + [END]))
        guilty, mate, elsewhere = call.wait()
        assert isinstance(guilty, EngineFault)
        assert isinstance(mate, EngineFault)
        assert isinstance(elsewhere, DecodeResult)
        record = next(record for record in caplog.records if guilty.fault_id in record.getMessage())
        assert record.exc_info is not None
        assert "on fire" in str(record.exc_info[1])
        assert "fire" not in str(guilty)
        submit(engine, request([4, END])).results()
        assert engine.alive()


def test_an_encoder_that_raises_fails_only_the_guilty_segment() -> None:
    def explode(sources: list[Prefix]) -> None:
        if (9, END) in sources:
            raise ValueError("cannot read this")

    decoder = endless()
    decoder.before_encode = explode
    gate = Gate()
    decoder.before_step = gate
    with running(decoder, workers=1) as engine:
        first = submit(engine, request([7, END]))
        gate.wait()
        call = submit(engine, *(request([one, END]) for one in (4, 9, 5)))
        gate.let_all()
        outcomes = call.wait()
        assert [type(outcome) for outcome in outcomes] == [DecodeResult, EngineFault, DecodeResult]
        first.results()


def test_rows_with_nan_are_answered_with_a_fault_and_their_mates_are_not() -> None:
    score = hashed_scores()

    def poisoned(source: Prefix, prefix: Prefix) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.full(12, np.nan, dtype=np.float32) if source[0] == 9 else score(source, prefix)

    with running(FakeDecoder(poisoned, hashed_look()), workers=1) as engine:
        call = submit(engine, request([9, END], beam_size=2), request([4, END]))
        bad, good = call.wait()
        assert isinstance(bad, EngineFault)
        assert isinstance(good, DecodeResult)
        check(good, call.requests[1], FakeDecoder(score, hashed_look()))


def test_a_fault_of_the_engine_itself_answers_whoever_was_in_its_hands(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeObserver):
        def tokens(self, kind: str, count: int) -> None:
            if count == 3:
                raise RuntimeError("out of order")

        def running(self, count: int) -> None:
            if count == 3:
                raise RuntimeError("out of order")

    with running(endless(), observer=Broken(), workers=1) as engine:
        for asked in (request([4, 5, END]), request([4, END], max_length=3)):
            assert isinstance(submit(engine, asked, request([5, END])).wait()[0], EngineFault)
        three = submit(engine, *(request([4, END]) for _ in range(3)))
        assert [type(outcome) for outcome in three.wait()] == [EngineFault] * 3
        submit(engine, request([4, END])).results()
        assert engine.alive()
        assert "out of order" in caplog.text


def test_a_receiver_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(index: int, outcome: Outcome) -> None:
        raise RuntimeError("the loop is closed")

    with running(endless(), workers=1) as engine, caplog.at_level(logging.ERROR):
        engine.submit(KEY, [request([4, END])], refuse)
        submit(engine, request([4, END])).results()
        eventually(lambda: "handed over" in caplog.text)


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


def test_stopping_finishes_what_was_taken_and_takes_no_more() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1, rows=2, widest_beam=2) as engine:
        call = submit(engine, *(request([one, END]) for one in range(4, 12)))
        gate.wait()
        stopping = threading.Thread(target=engine.stop, args=(SECONDS,))
        stopping.start()
        eventually(lambda: not accepts(engine))
        gate.let_all()
        call.results()
        stopping.join()
        assert not engine.alive()


def accepts(engine: Engine) -> bool:
    try:
        engine.submit(KEY, [], lambda index, outcome: None)
    except NotServing:
        return False
    return True


def test_what_is_left_after_the_grace_is_given_up_with_a_clear_answer() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1, rows=2, widest_beam=2) as engine:
        call = submit(engine, *(request([one, END], max_length=1) for one in range(4, 8)))
        gate.wait()
        stopping = threading.Thread(target=engine.stop, args=(0.0,))
        stopping.start()
        assert all(isinstance(outcome, NotServing) for outcome in call.wait())
        gate.let_one()
        stopping.join()
        assert [len(outcomes) for outcomes in call.outcomes] == [1] * 4


def test_a_worker_stuck_in_a_step_makes_the_engine_not_alive() -> None:
    clock, gate = Clock(), Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, clock=clock, workers=1) as engine:
        clock.now = 1e6
        assert engine.alive()  # idle for long is not stuck
        call = submit(engine, request([4, END]))
        gate.wait()
        assert engine.alive()
        clock.now += 31.0
        assert not engine.alive()
        gate.let_all()
        call.results()
        eventually(engine.alive)


def test_segments_of_one_call_spread_over_the_workers() -> None:
    threads: set[str] = set()
    both = threading.Barrier(2)

    def meet(sources: list[Prefix]) -> None:
        name = threading.current_thread().name
        if name not in threads:
            threads.add(name)
            both.wait(SECONDS)

    decoder = endless()
    decoder.before_step = meet
    with running(decoder, workers=2) as engine:
        submit(engine, *(request([4, END]) for _ in range(8))).results()
    assert len(threads) == 2


def test_pools_take_turns() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1) as engine:
        call = submit(engine, request([4, END]), request([4] * 20 + [END]), request([4] * 40 + [END]))
        widths: list[int] = []
        for _ in range(9):
            gate.wait()
            widths.append(len(decoder.steps[-1][0]))
            gate.let_one()
        gate.let_all()
        call.results()
    assert sorted(widths[-6:-3]) == sorted(widths[-3:]) == [2, 21, 41]


def test_running_rows_wait_for_a_bounded_encoding_only() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1, encode_cells=64) as engine:
        first = submit(engine, request([4, END]))
        gate.wait()
        call = submit(engine, *(request([5, END]) for _ in range(20)))
        for step in range(1, 4):
            gate.let_one()
            gate.wait()
            assert len(decoder.steps[-1]) == 1 + 4 * step
        gate.let_all()
        first.results()
        call.results()


def test_all_pools_of_a_worker_together_have_no_more_rows_than_it_may_have() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1, rows=4, widest_beam=2) as engine:
        call = submit(engine, *(request([4] * length + [END], beam_size=2) for length in (1, 20, 40, 60, 1, 20)))
        for _ in range(8):
            gate.wait()
            assert engine.running <= 2
            gate.let_one()
        gate.let_all()
        call.results()


def test_the_buffers_of_pools_that_are_not_used_are_given_back() -> None:
    outcomes: list[Outcome] = []
    settings = EngineSettings()
    decoder = endless()
    worker = Worker({KEY: decoder}, settings, FakeObserver(), Clock(), lambda job, outcome: outcomes.append(outcome))
    for length in (10, 20, 40, 60, 90, 120, 180, 10, 20, 60, 40):
        asked = request([4] * length + [END], max_length=2)
        pool = PoolKey(KEY, settings.width(length + 1))
        worker.start([Job(pool=pool, rows=1, request=asked, deliver=outcomes.append, submitted=0.0)])
        while worker.running:
            worker.step()
        assert len(worker.free()) <= 4
        assert pool in worker.free()
    assert [type(outcome) for outcome in outcomes] == [DecodeResult] * 11


def test_pools_that_are_used_keep_their_buffers_however_many_they_are() -> None:
    decoder = endless()
    decoder.max_source_tokens = 256
    decoder.__post_init__()
    with running(decoder, workers=1, encode_cells=10_000) as engine:
        lengths = (10, 20, 40, 60, 90, 120, 180, 250)
        submit(engine, *(request([4] * length + [END]) for length in lengths)).results()


def test_higher_priorities_are_decoded_first() -> None:
    gate = Gate()
    decoder = endless()
    decoder.before_step = gate
    with running(decoder, workers=1, rows=1, widest_beam=1) as engine:
        calls = [submit(engine, request([4, END]))]
        gate.wait()
        calls.append(submit(engine, request([5, END])))
        calls.append(submit(engine, request([6, END], priority=1)))
        gate.let_all()
        for call in calls:
            call.results()
    assert [batch[0][0] for _, batch in decoder.encoded] == [4, 6, 5]


def test_models_do_not_share_steps() -> None:
    decoder, other = endless(), endless()
    with running(decoder, others={ModelKey("fake", "2"): other}, workers=1) as engine:
        first = submit(engine, request([4, END]))
        second = submit(engine, request([5, END]), key=ModelKey("fake", "2"))
        first.results()
        second.results()
    assert {source for sources in decoder.steps for source in sources} == {(4, END)}
    assert {source for sources in other.steps for source in sources} == {(5, END)}


def test_sources_are_padded_to_widths_that_do_not_depend_on_their_mates() -> None:
    decoder = endless()
    with running(decoder, workers=1) as engine:
        submit(engine, *(request([4] * length + [END]) for length in (1, 15, 16, 40, 63))).results()
    widths = {len(source): width for width, batch in decoder.encoded for source in batch}
    assert widths == {2: 16, 16: 16, 17: 32, 41: 48, 64: 64}


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

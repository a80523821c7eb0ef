"""What fails in a model, in the engine or in a receiver is answered and logged, and harms nobody else."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from tests.server.engine_fakes import (
    END,
    FakeDecoder,
    FakeObserver,
    Prefix,
    hashed_attention,
    hashed_scores,
    request,
)
from tests.server.engine_running import KEY, Clock, Gate, check, endless, eventually, running, submit

from regard.server.engine.engine import Outcome
from regard.server.errors import (
    EngineFault,
)
from regard.server.request import DecodeResult


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

    with running(FakeDecoder(poisoned, hashed_attention()), workers=1) as engine:
        call = submit(engine, request([9, END], beam_size=2), request([4, END]))
        bad, good = call.wait()
        assert isinstance(bad, EngineFault)
        assert isinstance(good, DecodeResult)
        check(good, call.requests[1], FakeDecoder(score, hashed_attention()))


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

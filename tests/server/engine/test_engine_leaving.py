"""Who leaves the engine early, by cancelling, by a deadline or because it stops, frees its rows and harms nobody."""

from __future__ import annotations

import threading

from tests.server.engine_fakes import (
    END,
    Prefix,
    request,
)
from tests.server.engine_running import KEY, SECONDS, Call, Clock, Gate, cancel, endless, eventually, running, submit

from regard.server.engine.engine import Engine
from regard.server.errors import (
    CallCancelled,
    DeadlinePassed,
    NotServing,
)
from regard.server.request import DecodeResult


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

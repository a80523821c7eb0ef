"""Workers share segments, pools take turns, and buffers follow what is in use."""

from __future__ import annotations

import threading

from tests.server.engine_fakes import (
    END,
    FakeObserver,
    Prefix,
    request,
)
from tests.server.engine_running import KEY, SECONDS, Clock, Gate, endless, running, submit

from regard.contract.names import ModelKey
from regard.server.engine.engine import EngineSettings, Outcome
from regard.server.engine.segment import PoolKey, Segment
from regard.server.engine.worker import Worker
from regard.server.request import DecodeResult


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
    worker = Worker(
        {KEY: decoder}, settings, FakeObserver(), Clock(), lambda segment, outcome: outcomes.append(outcome)
    )
    for length in (10, 20, 40, 60, 90, 120, 180, 10, 20, 60, 40):
        asked = request([4] * length + [END], max_length=2)
        pool = PoolKey(KEY, settings.width(length + 1))
        worker.start([Segment(pool=pool, rows=1, request=asked, deliver=outcomes.append, submitted=0.0)])
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

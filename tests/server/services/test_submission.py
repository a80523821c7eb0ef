"""How a call waits for the engine, with an engine that answers when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from regard.contract.names import ModelKey
from regard.server.engine.engine import Ticket
from regard.server.engine.segment import PoolKey, Segment
from regard.server.errors import (
    AnswerTooLarge,
    CallCancelled,
    DeadlinePassed,
    EngineFault,
    NotServing,
    QueueFull,
    RegardError,
)
from regard.server.request import (
    CallContext,
    DecodeRequest,
    DecodeResult,
    SearchOptions,
    Timing,
)
from regard.server.services.submission import decode

KEY = ModelKey("toy", "1")
RESULT = DecodeResult(hypotheses=(), timing=Timing(0.0, 0.0, 0.0, 0, 0.0))
REQUEST = DecodeRequest(
    source=np.array([3], dtype=np.int64),
    search=SearchOptions(beam_size=1, n_best=1, length_penalty=1.0, min_length=0, max_length=1),
    context=CallContext(request_id="test"),
)
OnDone = Callable[[int, DecodeResult | RegardError], None]


@dataclass
class FakeEngine:
    """Takes `room` segments; knows them by their place in the call.

    Attributes:
        answer: takes a place and its outcome.
        segments: that it took.
        cancelled: places.
    """

    room: int = 100
    segments: list[Segment] = field(default_factory=list[Segment])
    answer: OnDone = lambda place, outcome: None
    cancelled: list[int] = field(default_factory=list[int])

    def submit(self, key: ModelKey, requests: Sequence[DecodeRequest], on_done: OnDone) -> Ticket:
        assert key == KEY
        assert not self.segments, "one submission for a call"
        if len(requests) > self.room:
            raise QueueFull("full", 1.0)
        self.answer = on_done
        self.segments = [
            Segment(pool=PoolKey(key, 16), rows=1, request=request, deliver=lambda outcome: None, submitted=0.0)
            for request in requests
        ]
        return Ticket(self.segments)

    def cancel(self, ticket: Ticket) -> None:
        self.cancelled.extend(self.segments.index(segment) for segment in ticket.segments)


async def begin(
    engine: FakeEngine, *segments: int, hold: Callable[[int], None] = lambda size: None
) -> asyncio.Task[list[tuple[DecodeResult, ...] | RegardError]]:
    task = asyncio.create_task(decode(engine, KEY, [[REQUEST] * count for count in segments], hold))
    await asyncio.sleep(0)
    return task


def test_results_come_back_in_order_whatever_order_they_were_made_in() -> None:
    async def run() -> None:
        engine = FakeEngine()
        task = await begin(engine, 2, 0, 1)
        late = DecodeResult(hypotheses=(), timing=Timing(1.0, 0.0, 0.0, 0, 0.0))
        await asyncio.to_thread(engine.answer, 2, RESULT)
        await asyncio.to_thread(engine.answer, 1, RESULT)
        await asyncio.to_thread(engine.answer, 0, late)
        assert await task == [(late, RESULT), (), (RESULT,)]
        assert engine.cancelled == []

    asyncio.run(run())


def test_a_failed_segment_fails_its_text_and_gives_up_only_its_siblings() -> None:
    async def run() -> None:
        engine = FakeEngine()
        task = await begin(engine, 1, 0, 2, 1)
        fault = EngineFault("f")
        engine.answer(2, fault)
        await asyncio.sleep(0)
        assert engine.cancelled == [1, 2]
        engine.answer(1, CallCancelled("gone"))
        engine.answer(3, RESULT)
        engine.answer(0, RESULT)
        assert await task == [(RESULT,), (), fault, (RESULT,)]
        assert engine.cancelled == [1, 2]

    asyncio.run(run())


def test_a_cancelled_call_leaves_nothing_in_the_engine() -> None:
    async def run() -> None:
        engine = FakeEngine()
        task = await begin(engine, 1, 1, 0)
        engine.answer(0, RESULT)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.cancelled == [1]
        engine.answer(1, CallCancelled("gone"))

    asyncio.run(run())


def test_a_call_that_does_not_fit_whole_is_not_taken_at_all() -> None:
    async def run() -> None:
        engine = FakeEngine(room=3)
        task = await begin(engine, 1, 2, 1)
        with pytest.raises(QueueFull):
            await task
        assert engine.segments == engine.cancelled == []

    asyncio.run(run())


def test_segments_that_a_stopping_engine_gives_up_are_told_as_unavailable() -> None:
    async def run() -> None:
        engine = FakeEngine()
        task = await begin(engine, 1)
        engine.answer(0, CallCancelled("stop"))
        (outcome,) = await task
        assert isinstance(outcome, NotServing)

    asyncio.run(run())


def test_a_deadline_is_told_as_it_is() -> None:
    async def run() -> None:
        engine = FakeEngine()
        task = await begin(engine, 1)
        engine.answer(0, DeadlinePassed("queue"))
        (outcome,) = await task
        assert isinstance(outcome, DeadlinePassed)

    asyncio.run(run())


def test_an_answer_that_comes_after_the_loop_has_closed_harms_nobody() -> None:
    engine = FakeEngine()

    async def run() -> None:
        task = await begin(engine, 1)
        task.cancel()

    asyncio.run(run())
    engine.answer(0, RESULT)


def test_a_result_that_may_not_be_held_fails_its_text_and_gives_up_the_rest_of_it() -> None:
    sizes: list[int] = []

    def hold(size: int) -> None:
        sizes.append(size)
        if len(sizes) == 2:
            raise AnswerTooLarge("too large")

    async def run() -> None:
        engine = FakeEngine()
        task = await begin(engine, 3, hold=hold)
        engine.answer(0, replace(RESULT, encoder_attention=np.zeros((1, 2, 3, 3), dtype=np.float32)))
        engine.answer(1, RESULT)
        (outcome,) = await task
        assert isinstance(outcome, AnswerTooLarge)
        assert sizes == [4 * 2 * 9, 0]
        assert engine.cancelled == [0, 1, 2]

    asyncio.run(run())

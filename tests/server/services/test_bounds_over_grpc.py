"""The bounds of the engine, held through the wire: past one the answer is clear and at once, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from hypothesis import given
from hypothesis import strategies as st
from tests.server.engine_fakes import CACHES, Cache
from tests.server.house import PROPERTY, Ask, House, asks, assert_same_answers, house
from tests.server.serving import (
    PATIENCE,
    Barrier,
    detail_of,
    eventually,
    fake_model,
)

from regard.server.settings import Limits

ROWS, QUEUE, CALLS = 16, 4, 3


@dataclass(repr=False)
class Crowd:
    """A house with little room, whose model waits."""

    house: House
    barrier: Barrier


def crowded(cache: Cache, **bounds: Any) -> Iterator[Crowd]:
    barrier = Barrier()
    limits = Limits(max_segments_per_call=3, max_text_bytes=200)
    for one in house(fake_model(cache=cache, before_step=barrier), workers=1, rows=ROWS, limits=limits, **bounds):
        yield Crowd(one, barrier)


@pytest.fixture(params=CACHES)
def crowd(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """Few segments may wait."""
    yield from crowded(request.param, queue_limit=QUEUE)


@pytest.fixture(params=CACHES)
def crowd_at_the_door(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """Few calls may be in."""
    yield from crowded(request.param, max_concurrent_calls=CALLS)


@PROPERTY
@given(
    calls=st.lists(asks(st.sampled_from([1, 4, 16])), min_size=1, max_size=24),
    too_long=st.sets(st.integers(0, 23), max_size=4),
)
def test_5_past_a_bound_the_answer_is_clear_and_at_once_and_nothing_is_lost(
    crowd: Crowd, calls: list[Ask], too_long: set[int]
) -> None:
    model, engine = crowd.house.model, crowd.house.engine
    long = "echo1 " * 40

    async def ask(index: int, one: Ask) -> None:
        spoilt = index in too_long
        sent = Ask(texts=(*one.texts[:2], long), beam_size=one.beam_size, n_best=one.n_best) if spoilt else one
        call = crowd.house.served.translation.Translate(sent.request(), timeout=PATIENCE)
        if await call.code() is not grpc.StatusCode.OK:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert detail_of(refused.value, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() > 0
            return
        response = await call
        if spoilt:
            assert response.results[-1].error.field == f"texts[{len(sent.texts) - 1}]"
            del response.results[-1]
            sent = Ask(texts=sent.texts[:-1], beam_size=one.beam_size, n_best=one.n_best)
        assert_same_answers(response, await crowd.house.call_alone(sent))

    async def example() -> None:
        for index, one in enumerate(calls):
            kept = one.texts[:2] if index in too_long else one.texts
            await crowd.house.call_alone(Ask(texts=kept, beam_size=one.beam_size, n_best=one.n_best))
            await crowd.house.call_alone(one)
        await crowd.house.idle()
        steps = len(model.steps)
        crowd.barrier.arm()
        pending = [crowd.house.begin(ask(index, one)) for index, one in enumerate(calls)]
        # With the model standing still, whoever is not answered has rows or waits, and both are bounded.
        await eventually(lambda: sum(not task.done() for task in pending) <= engine.running + engine.waiting)
        assert engine.running <= ROWS
        assert engine.waiting <= QUEUE
        crowd.barrier.lift()
        await asyncio.gather(*pending)
        assert all(len(sources) <= ROWS for sources in model.steps[steps:])
        await crowd.house.idle()
        assert await crowd.house.served.health() == 1

    crowd.house.run(example)


@PROPERTY
@given(extra=st.integers(1, 6), beam_size=st.sampled_from([9, 16]))
def test_5_a_full_queue_refuses_exactly_what_does_not_fit(crowd: Crowd, extra: int, beam_size: int) -> None:
    engine = crowd.house.engine
    one = Ask(texts=("echo1 echo2 echo3",), beam_size=beam_size, n_best=1)

    async def example() -> None:
        crowd.barrier.arm()
        pending = [crowd.house.call(one)]
        await eventually(crowd.barrier.reached.is_set)  # It fills the rows, for two such beams do not fit.
        pending.extend(crowd.house.call(one) for _ in range(QUEUE))
        await eventually(lambda: engine.waiting == QUEUE)
        for _ in range(extra):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await crowd.house.call(one)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert engine.waiting == QUEUE
        crowd.barrier.lift()
        assert len({response.results[0].text for response in await asyncio.gather(*pending)}) == 1
        # The next example begins with nobody in.
        await eventually(lambda: engine.running == engine.waiting == 0)

    crowd.house.run(example)


@PROPERTY
@given(extra=st.integers(1, 8), texts_each=st.integers(1, 3))
def test_5_more_calls_than_the_server_takes_are_refused_at_once(
    crowd_at_the_door: Crowd, extra: int, texts_each: int
) -> None:
    crowd = crowd_at_the_door
    one = Ask(texts=("echo1 echo2",) * texts_each, beam_size=1, n_best=1)

    async def example() -> None:
        crowd.barrier.arm()
        calls = [crowd.house.call(one) for _ in range(CALLS + extra)]
        await eventually(lambda: sum(call.done() for call in calls) == extra)
        crowd.barrier.lift()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        refusals = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
        assert [refusal.code() for refusal in refusals] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * extra
        assert all(detail_of(refusal, error_details_pb2.RetryInfo) for refusal in refusals)

    crowd.house.run(example)

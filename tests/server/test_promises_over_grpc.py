"""The promises of the engine, held through the wire: whatever arrives when, with whom, and whoever leaves.

The model is a function of the source and of what was said before, so that any row that is mixed up, kept too long or
given another's memory says something else than the same call alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see server.status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.v1 import attention_pb2, decoding_pb2, translation_pb2
from server.engine import Engine
from server.settings import Limits
from tests.server.engine_fakes import CACHES, Cache, Prefix
from tests.server.serving import (
    LOOK,
    PATIENCE,
    SCORE,
    Barrier,
    Served,
    ServedDecoder,
    detail_of,
    eventually,
    fake_model,
    serving,
)

Result = TypeVar("Result")
EVERY_HEAD = attention_pb2.AttentionOptions(reduction=attention_pb2.ATTENTION_REDUCTION_NONE)
PROPERTY = settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

words = st.integers(1, 59).map(lambda number: f"echo{number}")
lengths = st.one_of(st.integers(1, 4), st.integers(1, 20))
beams_of_any_width = st.integers(1, 5)
texts = lengths.flatmap(lambda count: st.lists(words, min_size=count, max_size=count)).map(" ".join)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One call."""

    texts: tuple[str, ...]
    beam_size: int
    n_best: int
    delay: float = 0.0

    def request(self) -> translation_pb2.TranslateRequest:
        """On the wire, with all attention."""
        decoding = decoding_pb2.DecodingOptions(beam_size=self.beam_size, n_best=self.n_best)
        return translation_pb2.TranslateRequest(texts=self.texts, decoding=decoding, attention=EVERY_HEAD)


passages = st.lists(texts, min_size=1, max_size=3).map(". ".join)


@st.composite
def asks(draw: st.DrawFn, beams: st.SearchStrategy[int], spoken: st.SearchStrategy[str] = texts) -> Ask:
    beam_size = draw(beams)
    return Ask(
        texts=tuple(draw(st.lists(spoken, min_size=1, max_size=3))),
        beam_size=beam_size,
        n_best=draw(st.integers(1, beam_size)),
        delay=draw(st.sampled_from([0.0, 0.0, 0.002, 0.01])),
    )


class Leaver(NamedTuple):
    """A caller that goes away after so many steps of time, or whose deadline passes."""

    text: str
    beam_size: int
    steps: int
    by_deadline: bool


leavers = st.builds(
    Leaver, text=texts, beam_size=beams_of_any_width, steps=st.integers(0, 12), by_deadline=st.booleans()
)


@dataclass(kw_only=True, repr=False)
class House:
    """A server that lives through the examples of one property, and what it answered to calls that came alone."""

    runner: asyncio.Runner
    served: Served
    model: ServedDecoder
    alone: dict[Ask, translation_pb2.TranslateResponse] = field(
        default_factory=dict[Ask, translation_pb2.TranslateResponse]
    )
    begun: list[asyncio.Task[Any]] = field(default_factory=list[asyncio.Task[Any]])

    @property
    def engine(self) -> Engine:
        assert self.served.front.loaded is not None
        return self.served.front.loaded.engine

    def run(self, example: Callable[[], Awaitable[None]]) -> None:
        """Run one example in the server's own event loop; however it ends, the next one finds an empty server."""

        async def bounded() -> None:
            try:
                async with asyncio.timeout(3 * PATIENCE):  # Whatever happens, no caller hangs.
                    await example()
            finally:
                if isinstance(self.model.before_step, Barrier):
                    self.model.before_step.lift()
                for task in self.begun:
                    task.cancel()
                await asyncio.gather(*self.begun, return_exceptions=True)
                self.begun.clear()
                await self.idle()

        self.runner.run(bounded())

    async def idle(self) -> None:
        """Wait until nothing is in the engine, which counts a segment as running until its worker's next turn."""
        await eventually(lambda: self.engine.running == self.engine.waiting == 0)

    def begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Do this beside the rest of the example, and not beyond its end."""
        task = asyncio.ensure_future(work)
        self.begun.append(task)
        return task

    def call(self, ask: Ask) -> asyncio.Task[translation_pb2.TranslateResponse]:
        """Call after the delay."""

        async def after_delay() -> translation_pb2.TranslateResponse:
            await asyncio.sleep(ask.delay)
            return await self.served.translation.Translate(ask.request(), timeout=PATIENCE)

        return self.begin(after_delay())

    async def call_alone(self, ask: Ask) -> translation_pb2.TranslateResponse:
        """Each text in a call of its own, with nobody else there."""
        if ask not in self.alone:
            response = translation_pb2.TranslateResponse()
            for text in ask.texts:
                single = Ask(texts=(text,), beam_size=ask.beam_size, n_best=ask.n_best)
                response.MergeFrom(await self.served.translation.Translate(single.request(), timeout=PATIENCE))
            self.alone[ask] = response
        return self.alone[ask]


def house(model: ServedDecoder, **changes: Any) -> Iterator[House]:
    with asyncio.Runner() as runner:
        running = serving(model, **changes)
        served = runner.run(running.__aenter__())
        try:
            yield House(runner=runner, served=served, model=model)
        finally:
            runner.run(running.__aexit__(None, None, None))


@pytest.fixture(params=CACHES)
def cache(request: pytest.FixtureRequest) -> Cache:
    """How the model keeps its state; every promise holds for each."""
    return request.param


@pytest.fixture
def roomy(cache: Cache) -> Iterator[House]:
    """Two workers, so that rows move between more than one pair of hands."""
    yield from house(fake_model(cache=cache), workers=2, rows=32)


@pytest.fixture
def single(cache: Cache) -> Iterator[House]:
    """One worker, whose steps come one after the other."""
    yield from house(fake_model(cache=cache), workers=1, rows=32)


def assert_same_answers(together: translation_pb2.TranslateResponse, alone: translation_pb2.TranslateResponse) -> None:
    assert len(together.results) == len(alone.results)
    for result, expected in zip(together.results, alone.results, strict=True):
        assert result.text == expected.text
        for segment, expected_segment in zip(result.segments, expected.segments, strict=True):
            for got, want in zip(segment.hypotheses, expected_segment.hypotheses, strict=True):
                assert [token.id for token in got.tokens] == [token.id for token in want.tokens]
                assert got.score == pytest.approx(want.score, abs=1e-4)
                assert got.finish_reason == want.finish_reason
                assert got.attention.shape == want.attention.shape
                assert got.attention.values == want.attention.values


@PROPERTY
@given(calls=st.lists(asks(beams_of_any_width, passages), min_size=1, max_size=6))
def test_1_an_answer_depends_neither_on_company_nor_on_the_order_of_arrival(roomy: House, calls: list[Ask]) -> None:
    async def example() -> None:
        expected = [await roomy.call_alone(ask) for ask in calls]
        for response, alone in zip(await asyncio.gather(*map(roomy.call, calls)), expected, strict=True):
            assert_same_answers(response, alone)

    roomy.run(example)


@PROPERTY
@given(
    staying=st.lists(asks(beams_of_any_width), min_size=1, max_size=3),
    leaving=st.lists(leavers, min_size=1, max_size=4, unique_by=lambda leaver: leaver.text),
)
def test_2_who_leaves_frees_its_rows_before_the_next_step_and_changes_no_other_answer(
    single: House, staying: list[Ask], leaving: list[Leaver]
) -> None:
    model, engine = single.model, single.engine
    given_up: list[tuple[Prefix, int]] = []
    forgotten: list[Any] = []
    submit, cancel = engine.submit, engine.cancel

    def watch(key: Any, requests: Any, on_done: Callable[[int, Any], None]) -> Any:
        call = asyncio.current_task()

        def done(index: int, outcome: Any) -> None:
            # In a worker's thread: what is over there and still decoded here was forgotten, not given up.
            if call is not None and call.done() and tuple(requests[index].source.tolist()) not in dict(given_up):
                forgotten.append(outcome)
            on_done(index, outcome)

        return submit(key, requests, done)

    def remember(ticket: Any) -> None:
        given_up.extend((tuple(job.request.source.tolist()), len(model.steps)) for job in ticket.jobs)
        cancel(ticket)

    async def leave(leaver: Leaver) -> None:
        # No other text ends in this word, so its rows can be told from those of others.
        ask = Ask(texts=(f"{leaver.text} echo",), beam_size=leaver.beam_size, n_best=1)
        patience = 0.002 * leaver.steps if leaver.by_deadline else PATIENCE
        call = single.served.translation.Translate(ask.request(), timeout=patience)
        if not leaver.by_deadline:
            for _ in range(leaver.steps):
                await asyncio.sleep(0.001)
            call.cancel()
        with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await call
        assert await call.code() in (
            grpc.StatusCode.OK,
            grpc.StatusCode.DEADLINE_EXCEEDED if leaver.by_deadline else grpc.StatusCode.CANCELLED,
        )

    async def example() -> None:
        expected = [await single.call_alone(ask) for ask in staying]
        given_up.clear()
        answers = asyncio.gather(*map(single.call, staying))
        await asyncio.gather(*(single.begin(leave(leaver)) for leaver in leaving))
        for response, alone in zip(await answers, expected, strict=True):
            assert_same_answers(response, alone)
        await single.idle()
        assert not forgotten
        for source, count in given_up:
            # The step that had begun when the news came may still hold the row.
            assert all(source not in sources for sources in model.steps[count + 1 :])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "submit", watch)
        patch.setattr(engine, "cancel", remember)
        single.run(example)


@PROPERTY
@given(calls=st.lists(asks(st.integers(2, 8)), min_size=1, max_size=6))
def test_3_attention_follows_its_beam_and_row_i_explains_token_i(roomy: House, calls: list[Ask]) -> None:
    async def example() -> None:
        for response in await asyncio.gather(*map(roomy.call, calls)):
            for result in response.results:
                assert not result.HasField("error")
                assert result.segments
                for segment in result.segments:
                    assert segment.hypotheses
                    source = tuple(token.id for token in segment.source_tokens)
                    for hypothesis in segment.hypotheses:
                        tokens = tuple(token.id for token in hypothesis.tokens)
                        values = np.frombuffer(hypothesis.attention.values, dtype="<f4")
                        weights = values.reshape(tuple(hypothesis.attention.shape))
                        assert weights.shape == (1, 1, len(tokens), len(source))
                        for row in range(len(tokens)):
                            np.testing.assert_array_equal(weights[:, :, row], LOOK(source, tokens[:row]))
                            log_probability = SCORE(source, tokens[:row])[tokens[row]]
                            assert hypothesis.tokens[row].log_probability == pytest.approx(log_probability, abs=1e-6)

    roomy.run(example)


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


@pytest.fixture
def crowd(cache: Cache) -> Iterator[Crowd]:
    """Few segments may wait."""
    yield from crowded(cache, queue_limit=QUEUE)


@pytest.fixture
def crowd_at_the_door(cache: Cache) -> Iterator[Crowd]:
    """Few calls may be in."""
    yield from crowded(cache, max_concurrent_calls=CALLS)


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

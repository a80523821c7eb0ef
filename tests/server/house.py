"""A server that lives through the examples of a property, and calls to it.

It knows no promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.server.serving import (
    PATIENCE,
    Barrier,
    Served,
    ServedDecoder,
    eventually,
    serving,
)

from regard.server.engine.engine import Engine
from regard.v1 import attention_pb2, decoding_pb2, translation_pb2

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


@st.composite
def asks(draw: st.DrawFn, beams: st.SearchStrategy[int], spoken: st.SearchStrategy[str] = texts) -> Ask:
    beam_size = draw(beams)
    return Ask(
        texts=tuple(draw(st.lists(spoken, min_size=1, max_size=3))),
        beam_size=beam_size,
        n_best=draw(st.integers(1, beam_size)),
        delay=draw(st.sampled_from([0.0, 0.0, 0.002, 0.01])),
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
        assert self.served.application.loaded is not None
        return self.served.application.loaded.engine

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

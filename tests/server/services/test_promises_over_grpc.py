"""The promises of the engine, held through the wire: whatever arrives when, with whom, and whoever leaves.

The model is a function of the source and of what was said before, so that any row that is mixed up, kept too long or
given another's memory says something else than the same call alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.engine_fakes import CACHES, Prefix
from tests.server.house import PROPERTY, Ask, House, asks, assert_same_answers, beams_of_any_width, house, texts
from tests.server.serving import (
    ATTENTION,
    PATIENCE,
    SCORE,
    fake_model,
)

passages = st.lists(texts, min_size=1, max_size=3).map(". ".join)


@pytest.fixture(params=CACHES)
def roomy(request: pytest.FixtureRequest) -> Iterator[House]:
    """Two workers, so that rows move between more than one pair of hands."""
    yield from house(fake_model(cache=request.param), workers=2, rows=32)


@pytest.fixture(params=CACHES)
def single(request: pytest.FixtureRequest) -> Iterator[House]:
    """One worker, whose steps come one after the other."""
    yield from house(fake_model(cache=request.param), workers=1, rows=32)


class Leaver(NamedTuple):
    """A caller that goes away after so many steps of time, or whose deadline passes."""

    text: str
    beam_size: int
    steps: int
    by_deadline: bool


leavers = st.builds(
    Leaver, text=texts, beam_size=beams_of_any_width, steps=st.integers(0, 12), by_deadline=st.booleans()
)


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
        given_up.extend((tuple(segment.request.source.tolist()), len(model.steps)) for segment in ticket.segments)
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
                            np.testing.assert_array_equal(weights[:, :, row], ATTENTION(source, tokens[:row]))
                            log_probability = SCORE(source, tokens[:row])[tokens[row]]
                            assert hypothesis.tokens[row].log_probability == pytest.approx(log_probability, abs=1e-6)

    roomy.run(example)

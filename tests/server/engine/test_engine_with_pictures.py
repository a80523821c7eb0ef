"""The engine's promises hold where pictures and texts share its workers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.server.caption_fakes import CELLS, SIDE, FakeCaptioner, colours_of, looks_within, picture
from tests.server.engine_fakes import END, FakeDecoder, FakeObserver, hashed_attention, hashed_scores, request

from regard.contract.names import ModelKey
from regard.server.engine.engine import Engine, EngineSettings, Outcome, Ticket
from regard.server.engine.segment import PoolKey, Segment
from regard.server.engine.worker import Worker
from regard.server.errors import CallCancelled, InvalidRequest
from regard.server.request import CallContext, DecodeRequest, DecodeResult, Hypothesis

PICTURES, TEXTS = ModelKey("captions", "1"), ModelKey("texts", "1")
SECONDS = 120.0

Asked = tuple[ModelKey, DecodeRequest]


def translator() -> FakeDecoder:
    return FakeDecoder(score=hashed_scores(ending=0.4), attend=hashed_attention())


def run(asked: Sequence[Asked], *, workers: int = 1, rows: int = 32) -> list[Outcome]:
    """Outcomes of requests that are all there at once."""
    models = {PICTURES: FakeCaptioner(), TEXTS: translator()}
    engine = Engine(models, EngineSettings(workers=workers, rows=rows), FakeObserver())
    engine.start()
    try:
        return collect(engine, asked)
    finally:
        engine.stop(0.0)


def collect(engine: Engine, asked: Sequence[Asked]) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    left = threading.Semaphore(0)

    def done(number: int, outcome: Outcome) -> None:
        outcomes[number] = outcome
        left.release()

    for number, (key, one) in enumerate(asked):
        engine.submit(key, [one], lambda _, outcome, number=number: done(number, outcome))
    for _ in asked:
        assert left.acquire(timeout=SECONDS)
    return [outcomes[number] for number in range(len(asked))]


def hypotheses(outcome: Outcome) -> tuple[Hypothesis, ...]:
    assert isinstance(outcome, DecodeResult), outcome
    return outcome.hypotheses


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two answers have the same tokens, scores and attention."""
    return all(
        left.tokens.tolist() == right.tokens.tolist()
        and left.score == pytest.approx(right.score, abs=1e-4)
        and np.array_equal(left.alignment, right.alignment)
        and left.attention is not None
        and right.attention is not None
        and np.array_equal(left.attention, right.attention)
        for left, right in zip(hypotheses(one), hypotheses(other), strict=True)
    )


@st.composite
def pictures(draw: st.DrawFn) -> Asked:
    ngram = draw(st.sampled_from([0, 1, 3]))
    return PICTURES, picture(draw(st.integers(0, 20)), beam_size=draw(st.integers(1, 4)), no_repeat_ngram=ngram)


@st.composite
def texts(draw: st.DrawFn) -> Asked:
    source = draw(st.lists(st.integers(4, 11), min_size=1, max_size=20))
    return TEXTS, request([*source, END], beam_size=draw(st.integers(1, 4)))


@given(st.lists(st.one_of(pictures(), texts()), min_size=1, max_size=12), st.integers(1, 2), st.sampled_from([16, 32]))
@settings(deadline=None, max_examples=25)
def test_an_answer_is_the_same_alone_and_in_any_company(asked: list[Asked], workers: int, rows: int) -> None:
    together = run(asked, workers=workers, rows=rows)
    for one, outcome in zip(asked, together, strict=True):
        assert same(outcome, run([one])[0])


def test_a_caption_says_what_is_in_its_picture_and_its_maps_have_all_cells() -> None:
    asked = picture(5)
    (best,) = hypotheses(run([(PICTURES, asked)])[0])
    assert len(best.tokens) == len(colours_of(asked.source.astype(np.uint8)))
    assert best.alignment.shape == (len(best.tokens), CELLS)
    np.testing.assert_allclose(best.alignment.sum(axis=1), 1, atol=1e-5)


def test_of_pictures_encoded_together_only_those_that_ask_get_what_the_encoder_looked_at() -> None:
    captioner = FakeCaptioner(looks_within=True)
    outcomes: list[Outcome] = []
    worker = Worker(
        {PICTURES: captioner},
        EngineSettings(workers=1),
        FakeObserver(),
        clock=lambda: 0.0,
        finish=lambda segment, outcome: segment.deliver(outcome),
    )

    def caption(*asked: DecodeRequest) -> None:
        worker.start(
            [
                Segment(pool=PoolKey(PICTURES, CELLS), rows=1, request=one, deliver=outcomes.append, submitted=0.0)
                for one in asked
            ]
        )
        while worker.step():
            pass

    asking = replace(picture(2), keep_encoder_attention=True)
    caption(picture(1), asking)
    caption(picture(1))
    assert (captioner.encoded, captioner.looked) == ([2, 1], [True, False])
    looked = [outcome.encoder_attention for outcome in outcomes if isinstance(outcome, DecodeResult)]
    found = [weights for weights in looked if weights is not None]
    assert (len(looked), len(found)) == (3, 1)
    np.testing.assert_array_equal(found[0], looks_within(asking.source.astype(np.uint8)[None])[0])
    assert found[0].base is None  # it keeps nothing of the others alive


def test_a_model_without_self_attention_is_not_asked_for_it() -> None:
    engine = Engine({PICTURES: FakeCaptioner()}, EngineSettings(), FakeObserver())
    with pytest.raises(InvalidRequest, match="keep_encoder_attention"):
        engine.submit(PICTURES, [replace(picture(1), keep_encoder_attention=True)], lambda _, outcome: None)


def test_a_given_caption_is_scored() -> None:
    asked = picture(5)
    said = hypotheses(run([(PICTURES, asked)])[0])[0]
    given_target = DecodeRequest(
        source=asked.source, search=asked.search, forced_target=said.tokens, context=asked.context
    )
    (scored,) = hypotheses(run([(PICTURES, given_target)])[0])
    assert scored.score == pytest.approx(said.score, abs=1e-5)


@pytest.mark.parametrize(
    "source",
    [
        np.zeros((SIDE, SIDE), dtype=np.uint8),
        np.zeros((SIDE, SIDE + 1, 3), dtype=np.uint8),
        np.zeros((0, SIDE, 3), dtype=np.uint8),
        np.array([5, END]),
    ],
)
def test_pixels_of_another_shape_are_refused(source: NDArray[Any]) -> None:
    asked = DecodeRequest(source=source, search=picture(0).search, context=CallContext(request_id="test"))
    with pytest.raises(InvalidRequest, match="source"):
        run([(PICTURES, asked)])


def test_pixels_are_refused_by_a_model_of_texts() -> None:
    with pytest.raises(InvalidRequest, match="source"):
        run([(TEXTS, picture(0))])


def test_cancelled_pictures_leave_the_others_alone() -> None:
    captioner = FakeCaptioner()
    reached, go_on = threading.Event(), threading.Event()

    def wait(pictures: int) -> None:
        reached.set()
        assert go_on.wait(SECONDS)

    captioner.before_encode = wait
    engine = Engine({PICTURES: captioner}, EngineSettings(), FakeObserver())
    engine.start()
    outcomes: dict[str, Outcome] = {}
    left = threading.Semaphore(0)

    def submit(name: str, seed: int) -> Ticket:
        def done(_: int, outcome: Outcome) -> None:
            outcomes[name] = outcome
            left.release()

        return engine.submit(PICTURES, [picture(seed)], done)

    try:
        submit("first", 1)
        assert reached.wait(SECONDS)
        gone = submit("gone", 2)
        submit("stays", 3)
        engine.cancel(gone)
        go_on.set()
        for _ in range(3):
            assert left.acquire(timeout=SECONDS)
    finally:
        engine.stop(0.0)
    assert isinstance(outcomes["gone"], CallCancelled)
    assert same(outcomes["stays"], run([(PICTURES, picture(3))])[0])
    assert same(outcomes["first"], run([(PICTURES, picture(1))])[0])

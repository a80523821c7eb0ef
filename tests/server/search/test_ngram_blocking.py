"""No n-gram comes twice where that was asked for, whatever else is asked for and whoever is beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server import engine_reference as reference
from tests.server.engine_fakes import END, FakeDecoder, constant_scores, hashed_scores, request

from regard.contract.names import ModelKey
from regard.server.engine.engine_settings import EngineSettings
from regard.server.engine.pool import Pool
from regard.server.engine.request_check import check_request
from regard.server.engine.segment import PoolKey, Segment
from regard.server.errors import InvalidRequest
from regard.server.request import DecodeRequest, FinishReason, Hypothesis
from regard.server.search.searches import slots_needed

WIDTH = 16
KEY = PoolKey(ModelKey("fake", "1"), WIDTH)
SOURCE = [5, 4, END]
# Words 4 and 5 only, of which the first is always likelier.
MONOTONOUS = constant_scores({4: 0.6, 5: 0.3, END: 0.1}, vocabulary=6)


def ask(decoder: FakeDecoder, *asked: DecodeRequest) -> list[tuple[Hypothesis, ...]]:
    """Answers of requests that share a pool, the last of which come one step later each."""
    pool = Pool(decoder, capacity=64, width=WIDTH)
    answers: dict[DecodeRequest, tuple[Hypothesis, ...]] = {}
    waiting = list(asked)
    while waiting or pool.rows:
        if waiting:
            one = waiting.pop(0)
            source = np.zeros((1, WIDTH), dtype=np.int64)
            source[0, : len(one.source)] = one.source
            segment = Segment(
                pool=KEY, rows=slots_needed(one), request=one, deliver=lambda outcome: None, submitted=0.0
            )
            encoded = decoder.encode(source, np.array([len(one.source)]))
            pool.admit([segment], encoded, now=0.0, encode_seconds=0.0)
        for ended in pool.step():
            assert ended.hypotheses is not None
            answers[ended.request] = ended.hypotheses
    return [answers[one] for one in asked]


def says(answer: tuple[Hypothesis, ...]) -> list[list[int]]:
    return [hypothesis.tokens.tolist() for hypothesis in answer]


@st.composite
def requests(draw: st.DrawFn) -> DecodeRequest:
    max_length = draw(st.integers(1, 12))
    return request(
        [*draw(st.lists(st.integers(4, 6), min_size=1, max_size=5)), END],
        beam_size=draw(st.integers(1, 4)),
        min_length=draw(st.integers(0, max_length)),
        max_length=max_length,
        length_penalty=draw(st.sampled_from([0.0, 1.0])),
        no_repeat_ngram=draw(st.integers(0, 4)),
        forced=draw(st.one_of(st.none(), st.none(), st.lists(st.integers(0, 6), max_size=8))),
        keep_attention=False,
    )


@given(st.lists(requests(), min_size=1, max_size=5), st.integers(0, 5))
@settings(deadline=None, max_examples=60)
def test_searches_find_what_the_reference_finds(asked: list[DecodeRequest], seed: int) -> None:
    decoder = FakeDecoder(score=hashed_scores(seed=seed, vocabulary=7, ending=0.05))
    for one, answer in zip(asked, ask(decoder, *asked), strict=True):
        expected = reference.search(decoder.score, one, limit=decoder.facts.target_limit(one))
        assert says(answer) == [list(wanted.tokens) for wanted in expected]
        for found, wanted in zip(answer, expected, strict=True):
            assert found.finish_reason is wanted.reason
            assert found.score == pytest.approx(wanted.score, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_run_of_that_many_tokens_comes_twice(beam_size: int, size: int) -> None:
    asked = request(SOURCE, beam_size=beam_size, max_length=20, no_repeat_ngram=size, keep_attention=False)
    (answer,) = ask(FakeDecoder(score=MONOTONOUS), asked)
    for tokens in says(answer):
        runs = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
        assert len(set(runs)) == len(runs)


def test_runs_that_are_shorter_may_come_again() -> None:
    (answer,) = ask(FakeDecoder(score=MONOTONOUS), request(SOURCE, no_repeat_ngram=3, max_length=20))
    assert says(answer)[0][:3] == [4, 4, 4]


def test_nothing_is_forbidden_where_it_was_not_asked_for() -> None:
    plain = request(SOURCE, max_length=9, keep_attention=False)
    beside = request(SOURCE, max_length=9, no_repeat_ngram=2, keep_attention=False)
    answers = ask(FakeDecoder(score=MONOTONOUS), beside, plain)
    assert says(answers[1]) == [[4] * 9]


def test_a_slot_that_changes_hands_forbids_nothing_of_what_its_last_owner_said() -> None:
    decoder = FakeDecoder(score=MONOTONOUS)
    first = request(SOURCE, max_length=1, no_repeat_ngram=1)
    second = request(SOURCE, max_length=1, no_repeat_ngram=1)
    assert says(ask(decoder, first, second)[1]) == [[4]]


def test_a_hypothesis_that_can_say_nothing_new_ends_though_it_is_short() -> None:
    asked = request(SOURCE, min_length=8, max_length=9, no_repeat_ngram=1, keep_attention=False)
    ((answer,),) = ask(FakeDecoder(score=MONOTONOUS), asked)
    assert answer.tokens.tolist() == [4, 5]
    assert answer.finish_reason is FinishReason.END


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_model_that_never_ends_is_cut_with_finite_scores(beam_size: int) -> None:
    endless = constant_scores({4: 0.6, 5: 0.4}, vocabulary=6)
    asked = request(SOURCE, beam_size=beam_size, max_length=6, no_repeat_ngram=1, keep_attention=False)
    (answer,) = ask(FakeDecoder(score=endless), asked)
    assert answer[0].finish_reason is FinishReason.LENGTH
    assert math.isfinite(answer[0].score)


def test_a_given_target_may_repeat_itself() -> None:
    asked = request(SOURCE, forced=[4, 4, 4, 4], no_repeat_ngram=1, keep_attention=False)
    ((answer,),) = ask(FakeDecoder(score=MONOTONOUS), asked)
    assert answer.log_probabilities.tolist() == pytest.approx([math.log(0.6)] * 4)


@pytest.mark.parametrize("size", [-1, 17])
def test_a_size_out_of_bounds_is_refused(size: int) -> None:
    decoder = FakeDecoder(score=MONOTONOUS)
    with pytest.raises(InvalidRequest, match="no_repeat_ngram"):
        check_request(request(SOURCE, no_repeat_ngram=size), decoder.facts, EngineSettings())

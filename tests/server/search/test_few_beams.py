"""A few beams go on number by number, many by arrays: both say the same, and both hand over what is odd."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.engine_fakes import CACHES, END, Cache, FakeDecoder, Score, hashed_look, hashed_scores, request

import regard.server.engine.pool
from regard.server.engine.pool import Pool
from regard.server.engine.scheduler import Job, PoolKey
from regard.server.request import DecodeRequest, Hypothesis, ModelKey
from regard.server.search.few_beams import advance_few_beams

WIDTH = 16
KEY = PoolKey(ModelKey("fake", "1"), WIDTH)

Answers = list[tuple[Hypothesis, ...] | None]


def answers(score: Score, asked: Sequence[DecodeRequest], *, cache: Cache, apart: int = 0) -> Answers:
    """Decode in one pool, every request so many steps after the one before."""
    decoder = FakeDecoder(score=score, look=hashed_look(), cache=cache)
    pool = Pool(decoder, capacity=64, width=WIDTH)
    found: dict[DecodeRequest, tuple[Hypothesis, ...] | None] = {}
    for one in asked:
        source = np.zeros((1, WIDTH), dtype=np.int64)
        source[0, : len(one.source)] = one.source
        job = Job(pool=KEY, rows=one.search.beam_size, request=one, deliver=lambda _: None, submitted=0.0)
        encoded = decoder.encode(source, np.array([len(one.source)]))
        pool.admit([job], encoded, now=0.0, encode_seconds=0.0)
        for _ in range(apart if pool.rows else 0):
            found.update((ended.running.job.request, ended.hypotheses) for ended in pool.step())
            if not pool.rows:
                break
    while pool.rows:
        found.update((ended.running.job.request, ended.hypotheses) for ended in pool.step())
    return [found[one] for one in asked]


def assert_equal(some: Answers, others: Answers) -> None:
    for one, other in zip(some, others, strict=True):
        assert one is not None
        assert other is not None
        assert len(one) == len(other)
        for ours, theirs in zip(one, other, strict=True):
            assert ours.tokens.tolist() == theirs.tokens.tolist()
            assert ours.log_probabilities.tolist() == theirs.log_probabilities.tolist()
            assert ours.end_log_probability == theirs.end_log_probability
            assert (ours.score, ours.finish_reason) == (theirs.score, theirs.finish_reason)
            np.testing.assert_array_equal(ours.attention, theirs.attention)


beams = st.builds(
    request,
    st.lists(st.integers(4, 9), min_size=1, max_size=6).map(lambda words: [*words, END]),
    beam_size=st.integers(2, 5),
    length_penalty=st.sampled_from([0.0, 1.0]),
    min_length=st.integers(0, 4),
    max_length=st.integers(1, 12),
)


@settings(max_examples=40, deadline=None)
@given(
    asked=st.lists(beams, min_size=1, max_size=3),
    cache=st.sampled_from(CACHES),
    seed=st.integers(0, 1000),
    apart=st.integers(0, 3),
    impossible=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_few_beams_say_what_arrays_say(
    asked: list[DecodeRequest], cache: Cache, seed: int, apart: int, impossible: float
) -> None:
    score = hashed_scores(seed=seed, impossible=impossible)
    few = answers(score, asked, cache=cache, apart=apart)
    with patch.object(regard.server.engine.pool, "FEW_IN_BEAMS", 0):
        assert_equal(few, answers(score, asked, cache=cache, apart=apart))


def test_rows_with_many_entries_move_as_those_with_few() -> None:
    asked = [request([4, 5, 6, 7, 8, *[9] * 9, END], beam_size=4, min_length=38, max_length=38)]
    score = hashed_scores(seed=4)
    few = answers(score, asked, cache="in place")
    with patch.object(regard.server.engine.pool, "FEW_IN_BEAMS", 0):
        assert_equal(few, answers(score, asked, cache="in place"))


@pytest.mark.parametrize(("impossible", "all_of_them"), [(0.0, True), (0.9, False)])
def test_few_beams_are_left_to_arrays_only_when_odd(impossible: float, all_of_them: bool) -> None:
    taken: list[bool] = []

    def counted(*args: object, **kwargs: object) -> object:
        over = advance_few_beams(*args, **kwargs)  # type: ignore[arg-type]
        taken.append(over is not None)
        return over

    asked = [request([4 + place, 5, END], beam_size=3, max_length=6 + place) for place in range(3)]
    with patch.object(regard.server.engine.pool, "advance_few_beams", counted):
        answers(hashed_scores(seed=3, impossible=impossible), asked, cache="none")
    assert len(taken) > 2
    assert all(taken) is all_of_them


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_few_beams_with_no_numbers_fail_alone(poison: float) -> None:
    sound = hashed_scores(seed=3)
    guilty = request([7, 7, END], beam_size=3)

    def score(source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        scores = sound(source, prefix)
        if source[0] == 7 and len(prefix) == 2:
            scores = scores.copy()
            scores[-1] = poison
        return scores

    innocent = request([4, 5, END], beam_size=4)
    found = answers(score, [innocent, guilty], cache="in place")
    assert found[1] is None
    assert_equal(found[:1], answers(sound, [innocent], cache="in place"))

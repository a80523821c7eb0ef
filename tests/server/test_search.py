"""The choice of tokens from scores, against the obvious way to do it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from server.request import Weights
from server.search import FLOOR, Candidates, TopTokens, best_tokens, divide, given_scores


def candidates(
    vocabulary: int, scores: Weights, rows: NDArray[np.intp], totals: NDArray[np.float64], count: int
) -> Candidates:
    top = TopTokens(vocabulary)
    return top.candidates(scores, top.maxima(scores), rows, totals, count)


@given(
    seed=st.integers(0, 2**32 - 1),
    vocabulary=st.sampled_from([4, 7, 12, 127, 129, 257, 300, 1000, 2063, 8000]),
    members=st.integers(1, 4),
    beams=st.integers(1, 6),
    dead=st.booleans(),
)
def test_candidates_are_those_of_a_full_sort(seed: int, vocabulary: int, members: int, beams: int, dead: bool) -> None:
    random = np.random.default_rng(seed)
    rows = random.permutation(members * beams + 3)[: members * beams].reshape(members, beams)
    scores = random.normal(size=(members * beams + 3, vocabulary)).astype(np.float32)
    scores[random.random(scores.shape) < 0.1] = -np.inf
    totals = random.normal(size=(members, beams))
    if dead:
        totals[:, 1:] = -np.inf
    found = candidates(vocabulary, scores, rows, totals, 2 * beams)
    for member in range(members):
        sums = (totals[member][:, None] + scores[rows[member]]).ravel()
        order = np.argsort(-sums, kind="stable")[: 2 * beams]
        exists = sums[order] > -np.inf
        assert found.total[member].tolist() == sums[order].tolist()
        # Parent by floor division, token by remainder.
        assert found.parent[member][exists].tolist() == (order // vocabulary)[exists].tolist()
        assert found.token[member][exists].tolist() == (order % vocabulary)[exists].tolist()


@pytest.mark.parametrize("vocabulary", [6, 255, 256, 257, 271, 272, 300])
def test_the_best_token_is_found_in_whatever_column_it_is(vocabulary: int) -> None:
    scores = np.full((1, vocabulary), -9.0, dtype=np.float32)
    top = TopTokens(vocabulary)
    for column in range(vocabulary):
        scores[0, column] = -1.0
        found = top.candidates(scores, top.maxima(scores), np.array([[0]]), np.zeros((1, 1)), 1)
        assert found.token.tolist() == [[column]]
        scores[0, column] = -9.0


def test_more_candidates_than_continuations_are_as_many_as_there_are() -> None:
    scores = np.zeros((2, 3), dtype=np.float32)
    found = candidates(3, scores, np.array([[0, 1]]), np.zeros((1, 2)), 100)
    pairs = set(zip(found.parent[0].tolist(), found.token[0].tolist(), strict=True))
    assert pairs >= {(parent, token) for parent in range(2) for token in range(3)}
    assert (found.total[0] > -np.inf).sum() == 6


def test_candidates_of_a_beam_do_not_depend_on_the_beams_beside_it() -> None:
    random = np.random.default_rng(3)
    # Few different values, so that ties are everywhere.
    scores = random.integers(-3, 0, size=(12, 500)).astype(np.float32)
    totals = random.integers(-3, 0, size=(3, 4)).astype(np.float64)
    rows = random.permutation(12).reshape(3, 4)
    together = candidates(500, scores, rows, totals, 8)
    for member in range(3):
        alone = candidates(500, scores[rows[member]], np.arange(4)[None], totals[member : member + 1], 8)
        for part, other in zip(together, alone, strict=True):
            assert part[member].tolist() == other[0].tolist()


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_row_with_nan_or_infinity_is_unsound_and_no_other(poison: float) -> None:
    scores = np.zeros((3, 5), dtype=np.float32)
    scores[1, 4] = poison
    _, _, sound = best_tokens(scores, ordinary=4)
    assert sound.tolist() == [True, False, True]


def test_a_row_that_allows_nothing_gets_an_ordinary_token_at_the_floor() -> None:
    token, log_probability, sound = best_tokens(np.full((1, 6), -np.inf, dtype=np.float32), ordinary=4)
    assert token.tolist() == [4]
    assert log_probability.tolist() == [FLOOR]
    assert sound.all()


def test_the_log_probability_of_a_given_token_is_finite_even_if_it_is_impossible_or_has_no_column() -> None:
    scores = np.array([[-1.0, -np.inf], [-2.0, -3.0]], dtype=np.float32)
    found = given_scores(scores, np.array([0, 1, 0]), np.array([1, 1, 2]))
    assert found.tolist() == [FLOOR, -3.0, FLOOR]


def test_only_endings_among_the_best_are_finished_and_the_best_others_go_on() -> None:
    end = 3
    token = np.array([[3, 5, 3, 6, 3, 7]])
    candidates = Candidates(np.zeros((1, 6), dtype=np.int64), token, -np.arange(6.0)[None])
    survivors = divide(candidates, beams=3, end=end)
    assert np.flatnonzero(survivors.ended[0]).tolist() == [0, 2]
    assert survivors.order[0][survivors.alive[0]].tolist() == [1, 3, 5]


def test_candidates_that_do_not_exist_neither_end_nor_go_on() -> None:
    candidates = Candidates(np.zeros((1, 4), dtype=np.int64), np.array([[5, 3, 3, 6]]), np.array([[0, *[-np.inf] * 3]]))
    survivors = divide(candidates, beams=2, end=3)
    assert not survivors.ended.any()
    assert survivors.alive[0].tolist() == [True, False]

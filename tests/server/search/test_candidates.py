"""The best tokens and continuations found by arrays, against the obvious way to find them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.server.request import Weights
from regard.server.search.candidates import Candidates, best_tokens, continuations, divide, given_log_probs
from regard.server.search.rule import FLOOR

END = 3


def candidates(scores: Weights, rows: NDArray[np.intp], totals: NDArray[np.float64], eos_id: int = END) -> Candidates:
    scores = scores.copy()
    return continuations(scores, scores.argmax(axis=1), rows, totals, eos_id=eos_id)


@given(
    seed=st.integers(0, 2**32 - 1),
    vocabulary=st.sampled_from([4, 7, 12, 257, 1000]),
    members=st.integers(1, 4),
    beams=st.integers(1, 6),
    dead=st.booleans(),
    ending=st.floats(-3.0, 6.0),
)
def test_candidates_are_those_of_a_full_sort(
    seed: int, vocabulary: int, members: int, beams: int, dead: bool, ending: float
) -> None:
    random = np.random.default_rng(seed)
    rows = random.permutation(members * beams + 3)[: members * beams].reshape(members, beams)
    scores = random.normal(size=(members * beams + 3, vocabulary)).astype(np.float32)
    scores[:, END] += ending
    scores[random.random(scores.shape) < 0.1] = -np.inf
    totals = random.normal(size=(members, beams))
    if dead:
        totals[:, 1:] = -np.inf
        rows[:, 1:] = -1
    found = candidates(scores, rows, totals)
    count = found.token.shape[1]
    assert beams <= count <= 2 * beams
    for member in range(members):
        sums = (totals[member][:, None] + scores[rows[member]]).ravel()
        order = np.argsort(-sums, kind="stable")[:count]
        total = np.append(sums[order], np.full(count - len(order), -np.inf))
        assert found.total[member].tolist() == total.tolist()
        exists = total > -np.inf
        # Parent by floor division, token by remainder.
        parent, token = (order // vocabulary)[exists[: len(order)]], (order % vocabulary)[exists[: len(order)]]
        assert found.parent[member][exists].tolist() == parent.tolist()
        assert found.token[member][exists].tolist() == token.tolist()
        assert found.row[member][exists].tolist() == rows[member][parent].tolist()
        assert found.log_prob[member][exists].tolist() == scores[rows[member][parent], token].tolist()
        # Enough of them go on, or there are no more.
        going = (found.token[member] != END) & exists
        assert going.sum() >= min(
            beams, (np.delete(scores[rows[member]], END, axis=1) > -np.inf)[: 1 if dead else None].sum()
        )


def test_no_more_is_found_than_it_takes_for_every_beam_to_go_on() -> None:
    scores = np.array([[-9.0, -9.0, -9.0, -1.0, -2.0, -3.0], [-9.0, -9.0, -9.0, -9.0, -2.0, -3.0]], dtype=np.float32)
    alone = candidates(scores[1:], np.array([[0]]), np.zeros((1, 1)))
    assert alone.token.tolist() == [[4]]
    both = candidates(scores, np.array([[0], [1]]), np.zeros((2, 1)))
    assert both.token.tolist() == [[END, 4], [4, 5]]


def test_beams_wider_than_the_vocabulary_find_what_there_is() -> None:
    scores = np.zeros((2, 3), dtype=np.float32)
    rows = np.full((1, 10), -1)
    rows[0, :2] = 0, 1
    found = candidates(scores, rows, np.array([[0.0, 0.0, *[-np.inf] * 8]]))
    exists = found.total[0] > -np.inf
    pairs = list(zip(found.parent[0][exists].tolist(), found.token[0][exists].tolist(), strict=True))
    assert pairs == [(parent, token) for parent in range(2) for token in range(3)]


def test_candidates_of_a_beam_do_not_depend_on_the_beams_beside_it() -> None:
    random = np.random.default_rng(3)
    # Few different values, so that ties are everywhere.
    scores = random.integers(-3, 0, size=(12, 500)).astype(np.float32)
    totals = random.integers(-3, 0, size=(3, 4)).astype(np.float64)
    rows = random.permutation(12).reshape(3, 4)
    together = candidates(scores, rows, totals)
    for member in range(3):
        alone = candidates(scores[rows[member]], np.arange(4)[None], totals[member : member + 1])
        for part, other in zip(together[1:], alone[1:], strict=True):
            assert part[member][: other.shape[1]].tolist() == other[0].tolist()


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_row_with_nan_or_infinity_is_broken_and_no_other(poison: float) -> None:
    scores = np.zeros((3, 5), dtype=np.float32)
    scores[1, 4] = poison
    _, _, broken = best_tokens(scores, fallback_id=4)
    assert broken.tolist() == [1]


def test_a_row_that_allows_nothing_gets_the_fallback_token_at_the_floor() -> None:
    token, log_prob, broken = best_tokens(np.full((1, 6), -np.inf, dtype=np.float32), fallback_id=4)
    assert token.tolist() == [4]
    assert log_prob.tolist() == [FLOOR]
    assert not len(broken)


def test_the_log_probability_of_a_given_token_is_finite_even_if_it_is_impossible_or_has_no_column() -> None:
    scores = np.array([[-1.0, -np.inf], [-2.0, -3.0]], dtype=np.float32)
    found = given_log_probs(scores, np.array([0, 1, 0]), np.array([1, 1, 2]))
    assert found.tolist() == [FLOOR, -3.0, FLOOR]


def test_only_endings_among_the_best_are_finished_and_the_best_others_go_on() -> None:
    token = np.array([[3, 5, 3, 6, 3, 7]])
    total = -np.arange(6.0)[None]
    none = np.zeros((1, 6), dtype=np.int64)
    candidates = Candidates(none, none, token, total, total.astype(np.float32))
    survivors = divide(candidates, beams=3, eos_id=END)
    assert np.flatnonzero(survivors.ended[0]).tolist() == [0, 2]
    assert survivors.order[0][survivors.alive[0]].tolist() == [1, 3, 5]


def test_candidates_that_do_not_exist_neither_end_nor_go_on() -> None:
    total = np.array([[0, *[-np.inf] * 3]])
    token = np.array([[5, 3, 3, 6]])
    none = np.zeros((1, 4), dtype=np.int64)
    candidates = Candidates(none, none, token, total, total.astype(np.float32))
    survivors = divide(candidates, beams=2, eos_id=3)
    assert not survivors.ended.any()
    assert survivors.alive[0].tolist() == [True, False]

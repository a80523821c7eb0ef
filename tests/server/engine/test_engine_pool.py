"""Rows, searches and histories together, one step at a time and without threads: what is answered, and to whom."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server import engine_reference as reference
from tests.server.engine_fakes import (
    CACHES,
    END,
    Attend,
    FakeDecoder,
    Prefix,
    Score,
    constant_scores,
    hashed_attention,
    hashed_scores,
    request,
)

from regard.contract.names import ModelKey
from regard.server.engine.pool import Pool
from regard.server.engine.segment import PoolKey, Segment
from regard.server.request import DecodeRequest, FinishReason, Hypothesis
from regard.server.search.searches import slots_needed

WIDTH = 16
KEY = PoolKey(ModelKey("fake", "1"), WIDTH)

Answer = tuple[Hypothesis, ...] | None


@pytest.fixture(params=CACHES, autouse=True, scope="module")
def every_way_to_keep_a_state(request: pytest.FixtureRequest) -> Iterator[None]:
    """All of it holds for each of the fakes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "FakeDecoder", functools.partial(FakeDecoder, cache=request.param))
        yield


def segment(asked: DecodeRequest) -> Segment:
    return Segment(pool=KEY, rows=slots_needed(asked), request=asked, deliver=lambda outcome: None, submitted=0.0)


class Driver:
    """A pool with what is needed to feed it."""

    def __init__(self, decoder: FakeDecoder, *, capacity: int = 64) -> None:
        self.decoder = decoder
        self.pool = Pool(decoder, capacity=capacity, width=WIDTH)
        self.answers: dict[DecodeRequest, Answer] = {}

    def admit(self, requests: Sequence[DecodeRequest]) -> None:
        source = np.zeros((len(requests), WIDTH), dtype=np.int64)
        for row, asked in enumerate(requests):
            source[row, : len(asked.source)] = asked.source
        length = np.array([len(asked.source) for asked in requests])
        encoded = self.decoder.encode(source, length)
        self.pool.admit([segment(asked) for asked in requests], encoded, now=0.0, encode_seconds=0.0)

    def running(self, asked: DecodeRequest) -> Segment | None:
        return next((segment for segment in self.pool.running if segment.request is asked), None)

    def step(self) -> None:
        for ended in self.pool.step():
            asked = ended.request
            assert asked not in self.answers
            self.answers[asked] = ended.hypotheses

    def finish(self) -> None:
        while self.pool.rows:
            self.step()


def ask_all(decoder: FakeDecoder, requests: Sequence[DecodeRequest]) -> list[Answer]:
    driver = Driver(decoder)
    driver.admit(requests)
    driver.finish()
    return [driver.answers[asked] for asked in requests]


def ask(decoder: FakeDecoder, asked: DecodeRequest) -> tuple[Hypothesis, ...]:
    answer = ask_all(decoder, [asked])[0]
    assert answer
    return answer


def check(answer: Answer, asked: DecodeRequest, score: Score, attend: Attend | None, decoder: FakeDecoder) -> None:
    """Hold an answer to the reference."""
    assert answer is not None
    expected = reference.search(score, asked, limit=decoder.facts.target_limit(asked))
    assert [tuple(found.tokens.tolist()) for found in answer] == [wanted.tokens for wanted in expected]
    for found, wanted in zip(answer, expected, strict=True):
        assert found.finish_reason is wanted.reason
        assert found.score == pytest.approx(wanted.score, abs=1e-4)
        assert found.log_probabilities.tolist() == pytest.approx(wanted.log_probabilities, abs=1e-5)
        assert found.end_log_probability == pytest.approx(wanted.end_log_probability, abs=1e-5)
        if attend is None:
            assert found.alignment.shape == (len(wanted.tokens), 0)
            assert found.attention is None
        else:
            weights = reference.attention(attend, asked, wanted.tokens)
            assert found.attention is not None
            np.testing.assert_array_equal(found.attention, weights)
            heads = [weights[layer, head] for layer, head in decoder.facts.alignment_heads]
            np.testing.assert_allclose(found.alignment, np.mean(heads, axis=0), atol=1e-6)


sources = st.lists(st.integers(4, 11), min_size=0, max_size=WIDTH - 1).map(lambda ids: [*ids, END])
searches = st.builds(
    request,
    sources,
    beam_size=st.sampled_from([1, 1, 2, 3, 4, 5]),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    min_length=st.integers(0, 3),
    max_length=st.integers(3, 14),
)
forced = st.builds(request, sources, forced=st.lists(st.integers(0, 11), max_size=6))
requests = st.one_of(searches, searches, forced)


@settings(max_examples=60, deadline=None)
@given(asked=st.lists(requests, min_size=1, max_size=12), seed=st.integers(0, 5), data=st.data())
def test_an_answer_does_not_depend_on_batch_mates_arrival_or_on_who_leaves_early(
    asked: list[DecodeRequest], seed: int, data: st.DataObject
) -> None:
    # Where most words are impossible a beam has fewer hypotheses than it may have, and fewer than it had.
    score, attend = hashed_scores(seed=seed, impossible=0.85 * (seed % 2)), hashed_attention()
    driver = Driver(FakeDecoder(score, attend))
    waiting, dropped = list(asked), set[DecodeRequest]()
    while waiting or driver.pool.rows:
        come = waiting[: data.draw(st.integers(0 if driver.pool.rows else 1, 4))]
        come = [
            entry for index, entry in enumerate(come) if sum(map(slots_needed, come[: index + 1])) <= driver.pool.free
        ]
        if come:
            waiting = waiting[len(come) :]
            driver.admit(come)
        if driver.pool.running and data.draw(st.integers(0, 9)) == 0:
            leaver = data.draw(st.sampled_from(driver.pool.running))
            driver.pool.drop(leaver)
            dropped.add(leaver.request)
        if driver.pool.rows:
            driver.step()
    assert dropped.isdisjoint(driver.answers)
    assert driver.pool.free == 64
    for entry in asked:
        if entry not in dropped:
            check(driver.answers[entry], entry, score, attend, driver.decoder)


def test_one_step_serves_greedy_beam_and_forced_requests_together() -> None:
    decoder = FakeDecoder(hashed_scores())
    driver = Driver(decoder)
    driver.admit([request([5, END]), request([6, END], beam_size=3), request([7, END], forced=[5, 6])])
    driver.step()
    assert decoder.steps == [[(5, END), (6, END), (7, END)]]


def test_a_beam_begins_with_one_row() -> None:
    decoder = FakeDecoder(constant_scores({4: 0.5, 5: 0.3, 6: 0.2}, vocabulary=7))
    driver = Driver(decoder)
    driver.admit([request([5, END], beam_size=3)])
    driver.step()
    driver.step()
    assert [len(sources) for sources in decoder.steps] == [1, 3]


def test_beams_read_their_own_source_each() -> None:
    score, attend = hashed_scores(seed=3), hashed_attention()
    asked = [request([*ids, END], beam_size=4) for ids in ([4], [9, 5, 9], [11, 10, 8, 7, 6, 6])]
    decoder = FakeDecoder(score, attend)
    for together, entry in zip(ask_all(decoder, asked), asked, strict=True):
        check(together, entry, score, attend, decoder)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_all_targets_finds_the_best_of_all(penalty: float) -> None:
    # Two words and at most 3 tokens: 7 targets that end and 8 that are cut.
    score = hashed_scores(seed=1, vocabulary=6)
    asked = request([4, 5, END], beam_size=15, max_length=3, length_penalty=penalty)
    answer = ask(FakeDecoder(score), asked)
    expected = reference.exhaustive(score, asked, limit=3)
    assert [tuple(found.tokens.tolist()) for found in answer] == [wanted.tokens for wanted in expected]
    assert [found.score for found in answer] == pytest.approx([wanted.score for wanted in expected], abs=1e-5)


@pytest.mark.parametrize("beam_size", [5, 6, 7, 10, 16])
def test_a_beam_wider_than_the_vocabulary_works(beam_size: int) -> None:
    score = hashed_scores(seed=2, vocabulary=6)
    asked = request([4, 5, END], beam_size=beam_size, max_length=5)
    decoder = FakeDecoder(score)
    check(ask(decoder, asked), asked, score, None, decoder)


def test_a_model_that_never_ends_is_cut_at_a_length_that_follows_from_its_source() -> None:
    decoder = FakeDecoder(constant_scores({4: 0.7, 5: 0.3}, vocabulary=6), max_target_tokens=60)
    for beam_size in (1, 3):
        for found in ask(decoder, request([4, 5, END], beam_size=beam_size, max_length=1000)):
            assert len(found.tokens) == 2 * 3 + 10
            assert found.finish_reason is FinishReason.LENGTH
            assert found.end_log_probability == 0.0


def test_no_target_is_longer_than_the_model_allows() -> None:
    decoder = FakeDecoder(constant_scores({4: 1.0}, vocabulary=6), max_target_tokens=7)
    (found,) = ask(decoder, request([4] * 9 + [END], max_length=1000))
    assert len(found.tokens) == 7


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_an_end_of_sentence_first_gives_an_empty_target_with_attention_of_no_rows(beam_size: int) -> None:
    attend = hashed_attention(layers=1, heads=1)
    decoder = FakeDecoder(constant_scores({END: 1.0}, vocabulary=8), attend)
    (found,) = ask(decoder, request([4, 5, END], beam_size=beam_size))
    assert found.tokens.tolist() == []
    assert found.finish_reason is FinishReason.END
    assert found.score == 0.0
    assert found.alignment.shape == (0, 3)
    assert found.attention is not None
    assert found.attention.shape == (1, 1, 0, 3)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_min_length_is_kept_even_by_a_model_that_only_knows_the_end(beam_size: int) -> None:
    decoder = FakeDecoder(constant_scores({END: 1.0}, vocabulary=8))
    for found in ask(decoder, request([4, END], beam_size=beam_size, min_length=2)):
        assert len(found.tokens) >= 2
        assert np.isfinite(found.score)
        assert np.isfinite(found.log_probabilities).all()


def test_the_special_tokens_are_never_generated_however_likely() -> None:
    decoder = FakeDecoder(constant_scores({0: 0.4, 1: 0.3, 2: 0.2, 4: 0.06, END: 0.04}, vocabulary=6))
    for beam_size in (1, 3):
        for found in ask(decoder, request([4, END], beam_size=beam_size)):
            assert set(found.tokens.tolist()) <= {4}


@settings(max_examples=40, deadline=None)
@given(asked=searches, seed=st.integers(0, 100))
def test_n_best_lists_are_sorted_finite_and_without_equal_ids(asked: DecodeRequest, seed: int) -> None:
    answer = ask(FakeDecoder(hashed_scores(seed=seed, vocabulary=8)), asked)
    ids = [tuple(found.tokens.tolist()) for found in answer]
    assert len(set(ids)) == len(ids)
    scores = [found.score for found in answer]
    assert scores == sorted(scores, reverse=True)
    assert np.isfinite(scores).all()
    for found in answer:
        assert END not in found.tokens
        counted = max(len(found.tokens) + (found.finish_reason is FinishReason.END), 1)
        total = float(found.log_probabilities.sum()) + found.end_log_probability
        assert found.score == pytest.approx(total / counted**asked.search.length_penalty, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_a_model_that_copies_looks_along_the_diagonal(beam_size: int) -> None:
    def attend(source: Prefix, prefix: Prefix) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        weights = np.zeros((1, 1, len(source)), dtype=np.float32)
        weights[0, 0, min(len(prefix), len(source) - 1)] = 1.0
        return weights

    def score(source: Prefix, prefix: Prefix) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        scores = np.full(12, -8.0, dtype=np.float32)
        # No tie with the end of sentence, which would be for the search to break.
        scores[END] = -9.0
        scores[source[min(len(prefix), len(source) - 1)]] = -0.01
        return scores

    decoder = FakeDecoder(score, attend)
    best = ask(decoder, request([8, 5, 11, 4, END], beam_size=beam_size))[0]
    assert best.tokens.tolist() == [8, 5, 11, 4]
    np.testing.assert_array_equal(best.alignment, np.eye(4, 5, dtype=np.float32))


def test_a_forced_target_is_scored_with_its_end_even_where_a_search_would_not_go() -> None:
    score, attend = hashed_scores(), hashed_attention()
    decoder = FakeDecoder(score, attend)
    for target in ([], [4], [1, 4, 4, 4, 4], list(range(12))):
        asked = request([5, 6, END], forced=target, length_penalty=0.6)
        check(ask(decoder, asked), asked, score, attend, decoder)


def test_a_forced_target_costs_a_finite_price_where_it_is_impossible() -> None:
    decoder = FakeDecoder(constant_scores({4: 1.0}, vocabulary=8))
    (found,) = ask(decoder, request([4, END], forced=[5, 4]))
    assert np.isfinite(found.log_probabilities).all()
    assert np.isfinite(found.score)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("where", ["scores", "attention"])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_rows_with_nan_or_infinity_fail_and_no_others(beam_size: int, where: str, poison: float) -> None:
    score, attend = hashed_scores(), hashed_attention()

    def bad_score(source: Prefix, prefix: Prefix) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        scores = score(source, prefix).copy()
        if source[0] == 9 and len(prefix) == 2 and where == "scores":
            scores[7] = poison
        return scores

    def bad_attend(source: Prefix, prefix: Prefix) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        weights = attend(source, prefix).copy()
        if source[0] == 9 and len(prefix) == 2 and where == "attention":
            weights[0, 1, 0] = poison
        return weights

    asked = [request([first, 5, END], beam_size=size, min_length=4) for first in (8, 9, 10) for size in (1, beam_size)]
    decoder = FakeDecoder(bad_score, bad_attend)
    for answer, entry in zip(ask_all(decoder, asked), asked, strict=True):
        if entry.source[0] == 9:
            assert answer is None
        else:
            check(answer, entry, score, attend, decoder)


def test_attention_that_was_not_asked_for_is_not_returned_but_alignment_is() -> None:
    decoder = FakeDecoder(hashed_scores(), hashed_attention())
    (found,) = ask(decoder, request([4, 5, END], keep_attention=False))
    assert found.attention is None
    assert found.alignment.shape == (len(found.tokens), 3)


def test_a_dropped_request_is_gone_before_the_next_step() -> None:
    decoder = FakeDecoder(constant_scores({4: 0.6, 5: 0.4}, vocabulary=6))
    driver = Driver(decoder)
    stay, leave = request([4, END]), request([5, END], beam_size=2)
    driver.admit([stay, leave])
    driver.step()
    driver.step()
    running = driver.running(leave)
    assert running is not None
    driver.pool.drop(running)
    driver.step()
    assert decoder.steps[-2:] == [[(4, END), (5, END), (5, END)], [(4, END)]]


def test_only_requests_whose_deadline_has_come_are_overdue() -> None:
    driver = Driver(FakeDecoder(constant_scores({4: 0.6, 5: 0.4}, vocabulary=6)))
    late, later, never = (request([4, END], beam_size=2, deadline=when) for when in (5.0, 5.1, np.inf))
    driver.admit([late, later, never])
    driver.step()
    driver.step()
    assert driver.pool.overdue(4.9) == []
    assert [segment.request for segment in driver.pool.overdue(5.0)] == [late]


def test_the_numbers_of_steps_and_rows_are_those_that_a_request_took_part_in() -> None:
    driver = Driver(FakeDecoder(constant_scores({4: 1.0}, vocabulary=6)))
    driver.admit([request([4, END], max_length=4)])
    driver.step()
    driver.admit([request([5, END], max_length=2)])
    driver.step()
    (ended,) = driver.pool.step()
    assert (ended.steps, ended.mean_rows) == (2, 2.0)
    (ended,) = driver.pool.step()
    assert (ended.steps, ended.mean_rows) == (4, (1 + 2 + 2 + 1) / 4)


def test_padding_is_the_share_of_columns_beyond_the_sources() -> None:
    driver = Driver(FakeDecoder(hashed_scores()))
    driver.admit([request([4, 5, 6, END]), request([4] * 11 + [END])])
    assert driver.pool.padding_ratio == pytest.approx(1 - (4 + 12) / 32)


def test_a_step_is_bound_once_for_each_number_of_rows_and_state_buffer() -> None:
    decoder = FakeDecoder(constant_scores({4: 1.0}, vocabulary=6))
    driver = Driver(decoder)
    for _ in range(3):
        driver.admit([request([4] * 10 + [END], max_length=8), request([4] * 10 + [END], max_length=8)])
        driver.finish()
    assert decoder.bound == 2


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_requests_that_end_at_different_times_leave_the_others_alone(order: tuple[int, ...]) -> None:
    lengths = (2, 4, 6)
    score, attend = hashed_scores(ending=-100.0), hashed_attention()
    decoder = FakeDecoder(score, attend)
    asked = [request([4 + place, 5, END], max_length=lengths[place]) for place in order]
    for answer, entry in zip(ask_all(decoder, asked), asked, strict=True):
        check(answer, entry, score, attend, decoder)

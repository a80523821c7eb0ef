"""Every path of the search, for many rows and for few, finds what the rule in plain Python finds.

The rule is `tests.server.engine_reference`. Ties, tokens that cannot follow, NaN, length limits, n-grams,
forced targets and rows at different steps are all drawn; the paths must agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.server import engine_reference as reference
from tests.server.engine_fakes import (
    CACHES,
    END,
    Attend,
    Cache,
    FakeDecoder,
    Prefix,
    Score,
    hashed_attention,
    hashed_scores,
    request,
)

import regard.server.search.batch_search
from regard.contract.names import ModelKey
from regard.server.engine.pool import Pool
from regard.server.engine.segment import PoolKey, Segment
from regard.server.request import DecodeRequest, Hypothesis, Weights
from regard.server.search.batch_search import FEW_GREEDY_ROWS, FEW_HYPOTHESES
from regard.server.search.searches import slots_needed

WIDTH, CAPACITY = 16, 64
KEY = PoolKey(ModelKey("fake", "1"), WIDTH)
# Most greedy rows, and most hypotheses of beams, for which each path is taken.
PATHS = {"arrays": (0, 0), "few rows": (CAPACITY, CAPACITY), "as served": (FEW_GREEDY_ROWS, FEW_HYPOTHESES)}

Answer = tuple[Hypothesis, ...] | None


def answers(decoder: FakeDecoder, asked: Sequence[DecodeRequest], *, path: str, apart: int = 0) -> list[Answer]:
    """Decode in one pool by one path, every request so many steps after the one before."""
    greedy, beams = PATHS[path]
    pool = Pool(decoder, capacity=CAPACITY, width=WIDTH, few_greedy_rows=greedy, few_hypotheses=beams)
    found: dict[DecodeRequest, Answer] = {}

    def step() -> None:
        found.update((segment.request, segment.hypotheses) for segment in pool.step())

    for one in asked:
        source = np.zeros((1, WIDTH), dtype=np.int64)
        source[0, : len(one.source)] = one.source
        segment = Segment(pool=KEY, rows=slots_needed(one), request=one, deliver=lambda _: None, submitted=0.0)
        encoded = decoder.encode(source, np.array([len(one.source)]))
        pool.admit([segment], encoded, now=0.0, encode_seconds=0.0)
        for _ in range(apart):
            if pool.rows:
                step()
    while pool.rows:
        step()
    return [found[one] for one in asked]


def with_ties(score: Score) -> Score:
    """Round log-probabilities, so that many are equal and so are many of their sums."""
    return lambda source, prefix: np.round(score(source, prefix))


def poisoned(
    exact: Callable[[Prefix, Prefix], Weights], poison: float | None, *, everywhere: bool = False
) -> Callable[[Prefix, Prefix], Weights]:
    """Put NaN or infinity in the last place, or everywhere, of what sources that begin with 7 get after two tokens."""

    def answer(source: Prefix, prefix: Prefix) -> Weights:
        values = exact(source, prefix)
        if poison is not None and source[0] == 7 and len(prefix) == 2:
            values = values.copy()
            values[..., slice(None) if everywhere else -1] = poison
        return values

    return answer


def assert_follows_the_rule(answer: Answer, asked: DecodeRequest, score: Score, attend: Attend, limit: int) -> None:
    try:
        expected = reference.search(score, asked, limit=limit)
    except reference.Broken:
        assert answer is None
        return
    assert answer is not None
    assert [tuple(found.tokens.tolist()) for found in answer] == [wanted.tokens for wanted in expected]
    for found, wanted in zip(answer, expected, strict=True):
        assert found.finish_reason is wanted.reason
        assert found.score == pytest.approx(wanted.score, abs=1e-4)
        assert found.log_probabilities.tolist() == pytest.approx(wanted.log_probabilities, abs=1e-5)
        assert found.end_log_probability == pytest.approx(wanted.end_log_probability, abs=1e-5)
        np.testing.assert_array_equal(found.attention, reference.attention(attend, asked, wanted.tokens))


def bits(answer: Answer) -> object:
    """Return all that an answer is made of, to be compared exactly."""
    return answer and [
        (
            one.tokens.tobytes(),
            one.log_probabilities.tobytes(),
            one.end_log_probability,
            one.score,
            one.finish_reason,
            one.alignment.tobytes(),
            None if one.attention is None else one.attention.tobytes(),
        )
        for one in answer
    ]


sources = st.lists(st.integers(4, 9), min_size=1, max_size=6).map(lambda words: [*words, END])
lengths = st.tuples(st.integers(0, 4), st.integers(0, 10)).map(lambda both: (both[0], max(1, sum(both))))


@st.composite
def searches(draw: st.DrawFn, *, widest: int, narrowest: int = 1, ngrams: bool = False) -> DecodeRequest:
    beams = draw(st.integers(narrowest, widest))
    min_length, max_length = draw(lengths)
    return request(
        draw(sources),
        beam_size=beams,
        n_best=draw(st.integers(1, beams)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0])),
        min_length=min_length,
        max_length=max_length,
        no_repeat_ngram=draw(st.integers(0, 3)) if ngrams else 0,
    )


forced = st.builds(request, sources, forced=st.lists(st.integers(0, 11), max_size=6))
greedy_alone = st.lists(searches(widest=1), min_size=1, max_size=6)
beams_alone = st.lists(searches(narrowest=2, widest=5), min_size=1, max_size=4)
everything = st.lists(st.one_of(searches(widest=5, ngrams=True), forced), min_size=1, max_size=6)


# At the third step of the second request nothing may follow, whether or not n-grams are blocked.
@example(
    asked=[request([4, 3], max_length=1), request([4, 4, 3], min_length=3, max_length=3, no_repeat_ngram=1)],
    cache="none",
    seed=0,
    apart=0,
    ties=False,
    impossible=0.9,
    poison=None,
    in_attention=False,
)
@settings(max_examples=120, deadline=None)
@given(
    asked=st.one_of(greedy_alone, beams_alone, everything),
    cache=st.sampled_from(CACHES),
    seed=st.integers(0, 1000),
    apart=st.integers(0, 3),
    ties=st.booleans(),
    impossible=st.sampled_from([0.0, 0.3, 0.9]),
    poison=st.sampled_from([None, None, np.nan, np.inf]),
    in_attention=st.booleans(),
)
def test_all_paths_find_what_the_rule_finds(
    asked: list[DecodeRequest],
    cache: Cache,
    seed: int,
    apart: int,
    ties: bool,
    impossible: float,
    poison: float | None,
    in_attention: bool,
) -> None:
    sound, attend = hashed_scores(seed=seed, impossible=impossible), hashed_attention()
    sound = with_ties(sound) if ties else sound
    # Attention with NaN breaks a search whatever may follow; log-probabilities do where they belong to what may follow.
    broken = poisoned(sound, poison, everywhere=in_attention)
    decoder = FakeDecoder(
        score=sound if in_attention else broken,
        attend=poisoned(attend, poison) if in_attention else attend,
        cache=cache,
    )
    found = {path: answers(decoder, asked, path=path, apart=apart) for path in PATHS}
    for place, one in enumerate(asked):
        assert_follows_the_rule(found["arrays"][place], one, broken, attend, decoder.facts.target_limit(one))
        for path in PATHS:
            assert bits(found[path][place]) == bits(found["arrays"][place]), path


def test_rows_with_long_caches_are_reordered_as_those_with_short_ones() -> None:
    asked = [request([4, 5, 6, 7, 8, *[9] * 9, END], beam_size=4, min_length=38, max_length=38)]
    decoder = FakeDecoder(score=hashed_scores(seed=4), attend=hashed_attention(), cache="in place")
    one, other = (answers(decoder, asked, path=path)[0] for path in ("few rows", "arrays"))
    assert bits(one) == bits(other)


@pytest.mark.parametrize(("beam_size", "name"), [(1, "advance_few_greedy_rows"), (3, "advance_few_beams")])
@pytest.mark.parametrize(("impossible", "always"), [(0.0, True), (0.9, False)])
def test_few_rows_leave_only_odd_steps_to_arrays(
    beam_size: int, name: str, impossible: float, always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    advance_few = getattr(regard.server.search.batch_search, name)

    def counted(*args: object, **kwargs: object) -> object:
        advance = advance_few(*args, **kwargs)
        taken.append(advance is not None)
        return advance

    monkeypatch.setattr(regard.server.search.batch_search, name, counted)
    asked = [
        request([4 + place, 5, END], beam_size=beam_size, min_length=place, max_length=6 + place) for place in range(3)
    ]
    # One word, which at times is impossible before an end of sentence may follow, or as many as there are hypotheses.
    score = hashed_scores(seed=3, impossible=impossible, vocabulary=5 if beam_size == 1 else 12)
    answers(FakeDecoder(score=score, attend=hashed_attention()), asked, path="as served")
    assert len(taken) > 2
    assert all(taken) is always

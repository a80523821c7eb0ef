"""A few greedy rows go on number by number, many by arrays: both say the same, and both hand over what is odd."""

from __future__ import annotations

import numpy as np
import pytest
from tests.server.engine_fakes import END, FakeDecoder, hashed_look, hashed_scores, request

import regard.server.engine.pool
from regard.server.engine.pool import Pool
from regard.server.engine.scheduler import Job, PoolKey
from regard.server.request import DecodeRequest, Hypothesis, ModelKey
from regard.server.search.greedy import FEW, advance_few

WIDTH = 16
KEY = PoolKey(ModelKey("fake", "1"), WIDTH)

Answers = list[tuple[Hypothesis, ...] | None]


def asked(count: int) -> list[DecodeRequest]:
    return [
        request([4 + place, 5, *([6] * place), END], beam_size=1, min_length=place % 3, max_length=6 + place)
        for place in range(count)
    ]


def answers(requests: list[DecodeRequest]) -> Answers:
    decoder = FakeDecoder(score=hashed_scores(seed=3), look=hashed_look())
    pool = Pool(decoder, capacity=16, width=WIDTH)
    source = np.zeros((len(requests), WIDTH), dtype=np.int64)
    for row, one in enumerate(requests):
        source[row, : len(one.source)] = one.source
    length = np.array([len(one.source) for one in requests])
    jobs = [Job(pool=KEY, rows=1, request=one, deliver=lambda _: None, submitted=0.0) for one in requests]
    pool.admit(jobs, decoder.encode(source, length), now=0.0, encode_seconds=0.0)
    found: dict[DecodeRequest, tuple[Hypothesis, ...] | None] = {}
    while pool.rows:
        found.update((ended.running.job.request, ended.hypotheses) for ended in pool.step())
    return [found[one] for one in requests]


@pytest.mark.parametrize("count", [1, 2, FEW])
def test_few_rows_say_what_arrays_say(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few = answers(asked(count))
    monkeypatch.setattr(regard.server.engine.pool, "FEW", 0)
    for one, other in zip(few, answers(asked(count)), strict=True):
        assert one is not None
        assert other is not None
        assert one[0].tokens.tolist() == other[0].tokens.tolist()
        assert one[0].log_probabilities.tolist() == other[0].log_probabilities.tolist()
        assert (one[0].score, one[0].finish_reason) == (other[0].score, other[0].finish_reason)
        np.testing.assert_array_equal(one[0].attention, other[0].attention)


def test_few_rows_are_left_to_arrays_only_when_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []

    def counted(*args: object, **kwargs: object) -> object:
        choices = advance_few(*args, **kwargs)  # type: ignore[arg-type]
        calls.append(choices is not None)
        return choices

    monkeypatch.setattr(regard.server.engine.pool, "advance_few", counted)
    answers(asked(FEW))
    assert calls
    assert all(calls)

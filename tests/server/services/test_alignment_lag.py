"""Heads that align in the step that is fed a token, not in the one that predicts it: row i still explains token i."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.server.engine_fakes import END, FakeDecoder, hashed_attention, hashed_scores, request

from regard.contract.names import ModelKey
from regard.server.engine.pool import Pool
from regard.server.engine.segment import PoolKey, Segment
from regard.server.request import DecodeRequest, FinishReason, Hypothesis, Weights
from regard.server.search.searches import slots_needed

SOURCE = (4, 7, 5, END)
WIDTH = 16
ATTEND = hashed_attention()


def decode(asked: DecodeRequest, *, lag: int) -> tuple[Hypothesis, ...]:
    decoder = FakeDecoder(score=hashed_scores(), attend=ATTEND)
    decoder.facts = dataclasses.replace(decoder.facts, alignment_lag=lag)
    pool = Pool(decoder, capacity=16, width=WIDTH)
    source = np.zeros((1, WIDTH), dtype=np.int64)
    source[0, : len(asked.source)] = asked.source
    key = PoolKey(ModelKey("fake", "1"), WIDTH)
    segment = Segment(pool=key, rows=slots_needed(asked), request=asked, deliver=lambda outcome: None, submitted=0.0)
    pool.admit([segment], decoder.encode(source, np.array([len(asked.source)])), now=0.0, encode_seconds=0.0)
    while True:
        for ended in pool.step():
            assert ended.hypotheses is not None
            return ended.hypotheses


def looked(hypothesis: Hypothesis, step: int) -> Weights:
    """What the aligning heads of the fake, the last of each layer, look at in a step [source]."""
    return ATTEND(SOURCE, tuple(hypothesis.tokens[:step].tolist()))[:, -1].mean(axis=0)


CASES = {
    "greedy": request(SOURCE),
    "beams": request(SOURCE, beam_size=4),
    "cut": request(SOURCE, max_length=3, min_length=3),
    "cut beams": request(SOURCE, beam_size=3, max_length=3, min_length=3),
    "given": request(SOURCE, forced=(5, 6, 7)),
    "given nothing": request(SOURCE, forced=()),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lag", [0, 1])
def test_alignments_are_those_of_the_step_that_the_bundle_names(case: str, lag: int) -> None:
    hypotheses = decode(CASES[case], lag=lag)
    assert any(one.finish_reason is FinishReason.LENGTH for one in hypotheses) == case.startswith("cut")
    for hypothesis in hypotheses:
        count = len(hypothesis.tokens)
        # Nothing is fed the last token of what was cut off.
        last = count - (hypothesis.finish_reason is FinishReason.LENGTH)
        expected = [looked(hypothesis, min(place + lag, last)) for place in range(count)]
        assert hypothesis.alignment.shape == (count, len(SOURCE))
        np.testing.assert_allclose(hypothesis.alignment, np.reshape(expected, (count, len(SOURCE))), atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_attention_of_every_head_is_that_of_the_predicting_step_whatever_the_lag(case: str) -> None:
    for early, late in zip(decode(CASES[case], lag=0), decode(CASES[case], lag=1), strict=True):
        assert early.attention is not None
        assert late.attention is not None
        np.testing.assert_array_equal(early.attention, late.attention)

"""Sentences are joined without loss, and BLEU with its interval is what sacreBLEU says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from regard.training.data.translation_data import Pair
from regard.training.studies.ladder import lengths as ladder_lengths
from regard.training.studies.ladder.lengths import (
    bleu,
    bucket_of,
    count,
    estimate,
    estimate_difference,
    join_neighbours,
)

REFERENCES = ["Ein Mann spielt im Park.", "Zwei Hunde rennen auf dem Gras.", "Ein Mädchen sitzt auf einer Bank."] * 5
GOOD = ["ein mann spielt im park.", "zwei hunde rennen auf dem gras.", "ein junge sitzt auf einer bank."] * 5
POOR = ["ein mann steht im park.", "zwei katzen rennen auf der wiese.", "ein junge liegt auf einer bank."] * 5


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder_lengths, "RESAMPLES", 50)


@given(st.integers(0, 30), st.integers(1, 5))
def test_joined_pairs_are_the_same_text(sentences: int, parts: int) -> None:
    pairs = [Pair(f"s{number}", f"t{number}") for number in range(sentences)]
    joined = join_neighbours(pairs, parts)
    assert " ".join(each.pair.source for each in joined).split() == [pair.source for pair in pairs]
    assert " ".join(each.pair.target for each in joined).split() == [pair.target for pair in pairs]
    assert all(each.parts == parts for each in joined[:-1])


@pytest.mark.parametrize(("words", "bucket"), [(1, (1, 9)), (9, (1, 9)), (10, (10, 14)), (59, (40, 59)), (60, None)])
def test_a_bucket_includes_both_its_ends(words: int, bucket: tuple[int, int] | None) -> None:
    assert bucket_of("word " * words) == bucket


def test_bleu_of_counts_is_that_of_sacrebleu() -> None:
    expected = BLEU(lowercase=True).corpus_score(POOR, [REFERENCES]).score
    assert bleu(count(POOR, REFERENCES)) == pytest.approx(expected)


def test_an_interval_holds_its_figure_and_is_the_same_every_time() -> None:
    counts = count(POOR, REFERENCES)
    found = estimate(counts)
    assert found.low < found.value < found.high
    assert estimate(counts) == found


def test_a_clear_difference_has_an_interval_above_zero() -> None:
    good, poor = count(GOOD, REFERENCES), count(POOR, REFERENCES)
    assert estimate_difference(good, poor).low > 0
    assert estimate_difference(poor, good).high < 0


def test_a_difference_from_itself_is_exactly_nothing() -> None:
    counts = count(POOR, REFERENCES)
    assert estimate_difference(counts, np.array(counts)) == (0.0, 0.0, 0.0)

"""Scores of captions: values worked out by hand, and what must not change them."""

import math

import pytest

from regard.scoring.captions import score_captions
from regard.scoring.cider import cider

REFERENCES = [
    ["A black dog runs .", "the dog is running fast"],
    ["Two men in hats", "two men wear hats ."],
    ["A red car", "a car that is red"],
]


def figures(captions: list[str], references: list[list[str]] = REFERENCES) -> dict[str, float]:
    return {score.metric: score.value for score in score_captions(captions, references)}


def test_a_reference_itself_is_perfect_but_for_the_other_references() -> None:
    found = figures([each[1] for each in REFERENCES])
    assert [found[f"bleu{order}"] for order in (1, 2, 3, 4)] == pytest.approx([100.0] * 4)
    assert 0 < found["cider"] < 1000


def test_capitals_and_punctuation_do_not_count() -> None:
    captions = ["a black dog runs", "two men in hats", "a red car"]
    loud = ["A black DOG, runs!", '"Two men" in hats.', "A red car"]
    assert figures(captions) == figures(loud)


def test_bleu_1_is_the_share_of_words_that_a_reference_has() -> None:
    # 3 of 4 words; the 4 words are as many as the closest reference has.
    assert figures(["a dog runs quickly"], REFERENCES[:1])["bleu1"] == pytest.approx(75.0)


def test_a_word_counts_as_often_as_one_reference_has_it() -> None:
    assert figures(["dog dog dog dog"], REFERENCES[:1])["bleu1"] == pytest.approx(25.0)


def test_short_captions_are_punished_but_for_the_figure_without_penalty() -> None:
    found = figures(["a dog"], [["a dog runs"]])
    assert found["bleu1_long"] == pytest.approx(100.0)
    assert found["bleu1"] == pytest.approx(100.0 * math.exp(1 - 3 / 2), abs=1e-3)


def test_the_closest_reference_decides_what_is_short() -> None:
    assert figures(["a dog"], [["a dog", "a dog runs over the green hill"]])["bleu1"] == pytest.approx(100.0)


def test_bleu_n_is_the_mean_of_its_orders() -> None:
    # Words 3 of 4, pairs 2 of 3.
    found = figures(["a black dog sleeps"], REFERENCES[:1])
    assert found["bleu2"] == pytest.approx(100.0 * math.sqrt(3 / 4 * 2 / 3), abs=1e-3)


def test_the_published_figure_stands_beside_ours() -> None:
    found = {score.metric: score for score in score_captions(["a dog"], [["a dog"]])}
    assert (found["bleu4"].published, found["bleu1_long"].published) == (21.3, 67.0)
    assert found["cider"].published is None
    assert "nrefs" in found["bleu1"].signature


def test_nothing_to_compare_with_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one reference of at least one picture"):
        score_captions([], [])
    with pytest.raises(ValueError, match="at least one reference of at least one picture"):
        score_captions(["a dog", "a cat"], [["a dog"], []])


def test_a_picture_without_a_caption_counts_as_all_wrong() -> None:
    assert figures(["", ""], [["a dog"], ["a cat"]])["bleu1"] == 0
    assert (
        figures(["a dog", ""], [["a dog"], ["a cat"]])["cider"]
        == figures(["a dog", "x"], [["a dog"], ["a cat"]])["cider"]
    )


def test_cider_of_one_word_worked_out() -> None:
    # One of two pictures has each word: idf log 2. Only order 1 exists, so a perfect match is 10 * 1/4.
    assert cider([["dog"], ["cat"]], [[["dog"]], [["cat"]]]) == pytest.approx(2.5)


def test_cider_of_two_words_worked_out() -> None:
    # "a" is in both pictures and weighs nothing; "dog" and "a dog" have idf log 2. Order 1: cosine of (dog) and (dog),
    # 1. Order 2: 1. Mean over 4 orders: 1/2, times 10. The second caption shares only "a": 0.
    assert cider([["a", "dog"], ["a", "pig"]], [[["a", "dog"]], [["a", "cat"]]]) == pytest.approx((5.0 + 0.0) / 2)


def test_cider_counts_no_repetition_and_punishes_another_length() -> None:
    references = [[["dog"]], [["cat"]]]
    once, thrice = cider([["dog"], ["cat"]], references), cider([["dog"] * 3, ["cat"]], references)
    # Order 1: min(3 log 2, log 2) log 2 / (3 log 2 log 2) = 1/3; lengths differ by 2 bigrams.
    assert thrice == pytest.approx((10 / 4 / 3 * math.exp(-4 / 72) + 2.5) / 2)
    assert thrice < once


def test_cider_is_the_mean_over_references() -> None:
    references = [[["dog"], ["pig"]], [["cat"]]]
    assert cider([["dog"], ["cat"]], references) == pytest.approx((1.25 + 2.5) / 2)

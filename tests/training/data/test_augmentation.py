"""Pairs are written otherwise on both sides alike, and slips in sources alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from regard.training.data.augmentation import AugmentConfig, has_figure, invent_figure, is_short, vary
from regard.training.data.translation_data import BatchConfig, Corpus, Pair, TranslationData
from regard.training.data.vocabulary import Vocabulary

RANDOM = 40


def varied(source: str, target: str, **settings: float) -> Iterator[tuple[str, str]]:
    """Yield a pair written otherwise by many seeds."""
    for seed in range(RANDOM):
        yield vary(source, target, "es", AugmentConfig(**settings), random.Random(seed))


def test_a_name_becomes_the_same_other_name_on_both_sides() -> None:
    for source, target in varied("Tom loves Boston.", "Tom ama Boston.", names=1.0):
        name = source.removesuffix(" loves Boston.")
        assert target == f"{name} ama Boston."
        assert name != "Tom"


def test_a_name_that_one_side_lacks_stays() -> None:
    assert set(varied("Tom is here.", "Él está aquí.", names=1.0)) == {("Tom is here.", "Él está aquí.")}


def test_a_figure_becomes_the_same_other_figure_on_both_sides() -> None:
    for source, target in varied("I have 30 books.", "Tengo 30 libros.", figures=1.0):
        assert target == f"Tengo {source.removeprefix('I have ').removesuffix(' books.')} libros."


def test_a_number_in_words_becomes_a_figure() -> None:
    for source, target in varied("I have three books.", "Tengo tres libros.", figures=1.0):
        figure = source.removeprefix("I have ").removesuffix(" books.")
        assert figure[0].isdigit()
        assert target == f"Tengo {figure} libros."


def test_a_singular_figure_stays() -> None:
    assert not has_figure("It is 1 o'clock.", "Es la 1.", "es")


def test_marks_stand_around_both_sides() -> None:
    for source, target in varied("Go.", "Ve.", marks=1.0):
        assert source.replace("Go.", "") == target.replace("Ve.", "") != ""


@pytest.mark.parametrize("slip", ["apostrophes", "typos", "titles"])
def test_slips_are_the_sources_alone(slip: str) -> None:
    settings = {slip: 1.0}
    for source, target in varied("I don't understand.", "No entiendo.", **settings):
        assert target == "No entiendo."
        assert source != "I don't understand."


def test_figures_have_all_lengths() -> None:
    rng = random.Random(1)
    found = [invent_figure(rng) for _ in range(500)]
    assert {len(figure) for figure in found if figure.isdigit()} == {1, 2, 3, 4, 5, 6, 7}
    assert all(any(mark in figure for figure in found) for mark in ".,:")


def test_short_sources_have_up_to_two_words() -> None:
    assert is_short("Thank you!")
    assert not is_short("I see you.")


def test_a_share_that_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="typos is 2"):
        AugmentConfig(typos=2.0)


def test_subwords_are_left_out_at_random_and_say_the_same() -> None:
    vocabulary, _ = Vocabulary.train(["understanding everything"] * 9, ["entender todo"] * 9, size=80)
    dropping = vocabulary.dropping(0.5)
    found = {tuple(dropping.encode("understanding everything")) for _ in range(RANDOM)}
    assert len(found) > 1
    assert {vocabulary.decode(ids) for ids in found} == {"understanding everything"}


def test_an_epoch_has_more_of_the_pairs_with_figures() -> None:
    pairs = [Pair("I see you.", "Te veo.")] * 99 + [Pair("I see 30 of you.", "Veo a 30.")]
    vocabulary, output = Vocabulary.train([pair.source for pair in pairs], [pair.target for pair in pairs], size=60)
    corpus = Corpus(train=pairs, valid=pairs[:1], test=[], origin="")
    config = BatchConfig(augment=AugmentConfig(more_figures=0.5))
    batches = TranslationData(corpus, vocabulary, config, output=output, seed=1).train(0)
    lengths = [int(length) for index in range(len(batches)) for length in batches[index].source_length]
    assert sum(length > min(lengths) for length in lengths) > 30

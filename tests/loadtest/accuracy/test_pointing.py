"""Whether a word points at its thing: what is drawn where, which words count, and how hits and chance are counted."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from regard.loadtest.accuracy.pointing import NOUNS, SIDE, OneThing, Pointing, cells_of, draw_things, gather, point
from regard.loadtest.load.shapes import COLOURS, KINDS


def thing(kind: str = "ball", colour: str = "red") -> OneThing:
    """One that fills the upper left of 2 x 2 cells and reaches one pixel into its right neighbour."""
    where = np.zeros((10, 10), dtype=np.bool_)
    where[0:5, 0:6] = True
    return OneThing(name="", kind=kind, colour=colour, content=b"", where=where)


def peaks(*cells: int) -> NDArray[np.float32]:
    maps = np.full((len(cells), 4), 0.1, dtype=np.float32)
    maps[range(len(cells)), cells] = 0.7
    return maps.reshape(-1, 2, 2)


def test_every_kind_of_thing_has_a_noun_for_it() -> None:
    assert set(NOUNS) == set(KINDS)


def test_a_thing_is_drawn_where_it_is_said_to_be_and_in_its_colour() -> None:
    for drawn in draw_things(2 * len(KINDS), seed=3):
        pixels = np.asarray(Image.open(io.BytesIO(drawn.content)), dtype=np.int64)
        assert pixels.shape == (SIDE, SIDE, 3)
        ground = pixels[~drawn.where]
        assert (ground == ground[0]).all(axis=1).mean() > 0.98
        of_colour = np.abs(pixels[drawn.where] - COLOURS[drawn.colour]).sum(axis=1) < 6
        assert of_colour.mean() > 0.3, drawn.name


def test_things_come_in_all_kinds_at_many_places_and_the_same_for_a_seed() -> None:
    drawn = draw_things(30, seed=1)
    assert {each.kind for each in drawn} == set(KINDS)
    assert len({each.where.tobytes() for each in drawn}) == 30
    assert [each.content for each in draw_things(30, seed=1)] == [each.content for each in drawn]
    assert draw_things(1, seed=2)[0].content != drawn[0].content


def test_a_thing_lies_in_every_cell_that_any_of_its_pixels_lies_in() -> None:
    assert cells_of(thing().where, 2, 2).tolist() == [[True, True], [False, False]]


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 14), columns=st.integers(1, 14))
def test_a_thing_that_is_everywhere_lies_in_all_cells(rows: int, columns: int) -> None:
    assert cells_of(np.ones((SIDE, SIDE), dtype=np.bool_), rows, columns).all()


def test_words_for_the_thing_are_its_colour_and_its_nouns_and_hit_where_the_peak_lies_on_it() -> None:
    found = point(thing(), ["a", "red", "balloon", "rolls"], peaks(3, 0, 2, 1))
    assert found["colours"] == Pointing(1, 1, 0.5)
    assert found["nouns"] == Pointing(1, 0, 0.5)
    assert found["others"] == Pointing(2, 1, 0.5)


@pytest.mark.parametrize("word", ["Red", "red,", "RED"])
def test_capitals_and_punctuation_do_not_keep_a_word_from_counting(word: str) -> None:
    assert point(thing(), [word], peaks(0))["colours"].words == 1


def test_the_colour_of_something_else_and_a_noun_for_another_thing_do_not_count() -> None:
    found = point(thing(), ["blue", "shirt"], peaks(0, 0))
    assert (found["colours"].words, found["nouns"].words, found["others"].words) == (0, 0, 2)


def test_a_word_that_is_repeated_counts_once_where_it_comes_first() -> None:
    assert point(thing(), ["red", "red"], peaks(0, 3))["colours"] == Pointing(1, 1, 0.5)


def test_captions_without_a_word_for_the_thing_count_as_such_and_in_no_rate() -> None:
    spoken = point(thing(), ["red", "dog"], peaks(0, 3))
    silent = point(thing(), ["a", "dog"], peaks(0, 0))
    found = gather(3, [spoken, silent])
    assert (found.pictures, found.captioned, found.named) == (3, 2, 1)
    assert found.all == Pointing(1, 1, 0.5)
    assert found.others == Pointing(1, 0, 0.5)


def test_chance_is_the_mean_over_words() -> None:
    counts = {"colours": Pointing(3, 1, 0.2), "nouns": Pointing(1, 1, 0.6), "others": Pointing(0, 0, 0.0)}
    assert gather(1, [counts]).all.chance == pytest.approx(0.3)
    assert gather(1, [counts]).all.rate == pytest.approx(0.5)


def test_without_words_there_is_no_rate() -> None:
    assert gather(1, []).all.rate is None

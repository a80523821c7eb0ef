"""Marks are written plainly and capitals as sentences, and every character knows its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.capitals import is_in_capitals, to_capitals, to_sentence
from regard.text.typography import write_plainly


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("It\u2019s \u201cgood\u201d", 'It\'s "good"'),
        ("Wait\u2026 no \u2013 yes", "Wait... no - yes"),
        ("a\u00a0b\u202fc", "a b c"),
        ("sta\u00adtion and hel\u200blo", "station and hello"),
        ("\ufb01ne \uff11\uff12", "fine 12"),
        ("\u00ab oui \u00bb", '" oui "'),
        ("ma\u00f1ana \u00bfno?", "ma\u00f1ana \u00bfno?"),
    ],
)
def test_typographic_marks_become_plain_ones(written: str, plain: str) -> None:
    assert write_plainly(written).text == plain


def test_places_say_where_each_character_came_from() -> None:
    found = write_plainly("a\u00adb\u2026c")
    assert (found.text, found.places) == ("ab...c", (0, 2, 3, 3, 3, 4))


@given(st.text())
def test_places_never_fall_and_lie_in_the_text(text: str) -> None:
    found = write_plainly(text)
    assert len(found.places) == len(found.text)
    assert list(found.places) == sorted(found.places)
    assert all(0 <= place < len(text) for place in found.places)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_stays(text: str) -> None:
    assert write_plainly(text).text == text


def test_a_sentence_in_capitals_is_told_from_an_acronym() -> None:
    assert is_in_capitals("PLEASE HELP ME!")
    assert not is_in_capitals("NASA")
    assert not is_in_capitals("NASA is here")
    assert not is_in_capitals("12 34!")


def test_capitals_become_a_sentence() -> None:
    assert to_sentence('"I\'M SURE THAT I KNOW."') == '"I\'m sure that I know."'
    assert to_sentence("\u00bfD\u00d3NDE?") == "\u00bfD\u00f3nde?"


@given(st.text())
def test_capitals_and_back_have_as_many_characters(text: str) -> None:
    assert len(to_sentence(text)) == len(text) == len(to_capitals(text))


def test_german_sharp_s_has_a_capital() -> None:
    assert to_capitals("Stra\u00dfe") == "STRA\u1e9eE"

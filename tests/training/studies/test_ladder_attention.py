"""Pieces become words, and each kind of look is found where it is."""

import pytest
import torch

from regard.training.studies.ladder.attention import Choice, WordAttention, candidates, picture, words_of


def look(source: str, target: str, path: list[int]) -> WordAttention:
    """A look whose target words each look at one source word, and a little elsewhere."""
    columns, rows = tuple(source.split()), tuple(target.split())
    weights = torch.full((len(rows), len(columns)), 0.2 / len(columns))
    for row, place in enumerate(path):
        weights[row, place] = 0.8
    return WordAttention(columns, rows, weights, torch.zeros(len(rows)))


MONOTONE = look("a b c d e f", "A B C D E F", [0, 1, 2, 3, 4, 5])
REVERSED = look("a b c d e f", "A C D E B F", [0, 2, 3, 4, 1, 5])
MANY = look("a b c d e f", "A B X Y E F", [0, 1, 1, 1, 4, 5])


def test_pieces_are_joined_at_the_mark_of_a_space_and_before_punctuation() -> None:
    words, places = words_of(["▁park", "bank", "▁", "t", "-", "shirt", ".", "▁und"])
    assert words == ("parkbank", "t-shirt", ".", "und")
    assert places == [0, 0, 1, 1, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "place", "region"),
    [("monotone", 0, ""), ("reversed", 1, "C D E B <- b"), ("one to many", 2, "B X Y <- b")],
)
def test_each_kind_of_look_is_found_first_among_others(kind: str, place: int, region: str) -> None:
    found = candidates([MONOTONE, REVERSED, MANY], kind, 3)
    assert (found[0].place, found[0].region) == (place, region)


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'upside down'"):
        candidates([MONOTONE], "upside down", 1)


def test_a_picture_keeps_words_and_weights() -> None:
    made = picture(Choice(kind="monotone", source="", note="see"), MONOTONE)
    assert made.source == MONOTONE.source
    assert len(made.weights) == len(made.target) == len(made.end_weights)
    assert made.weights[0][0] == pytest.approx(0.8)

"""The alignment error rate is that of the literature, worked out by hand, and links are read as written."""

from typing import NamedTuple

import pytest

from regard.scoring.alignments import Links, alignment_error_rate, parse_links


class Pair(NamedTuple):
    sure: Links
    possible: Links


def gold(text: str) -> Pair:
    return Pair(*parse_links(text))


def links(*pairs: tuple[int, int]) -> Links:
    return frozenset(pairs)


@pytest.mark.parametrize(
    ("found", "truth", "expected"),
    [
        (links((0, 0), (1, 1)), "0-0 1-1", 0),
        (links((0, 1), (1, 0)), "0-0 1-1", 100),
        # |A and S| = 1, |A and P| = 1, |A| = 2, |S| = 2: without possible links it is 1 - F1.
        (links((0, 0), (1, 0)), "0-0 1-1", 50),
        # Right about what is only possible: |A and S| = 1, |A and P| = 2, |A| = 2, |S| = 1.
        (links((0, 0), (1, 1)), "0-0 1?1", 0),
        # Missing what is only possible costs nothing: 1, 1, 1, 1.
        (links((0, 0)), "0-0 1?1", 0),
        # Wrong beyond both: |A and S| = 1, |A and P| = 2, |A| = 3, |S| = 1.
        (links((0, 0), (1, 1), (2, 2)), "0-0 1?1", 25),
        (links(), "0-0", 100),
    ],
)
def test_the_rate_is_that_of_hand_made_examples(found: Links, truth: str, expected: float) -> None:
    assert 100 * alignment_error_rate([found], [gold(truth)]) == pytest.approx(expected)


def test_sentences_count_by_their_links_and_not_each_the_same() -> None:
    found = [links((0, 0)), links((0, 1), (1, 0), (2, 0))]
    truth = [gold("0-0"), gold("0-0 1-1 2-2")]
    assert alignment_error_rate(found, truth) == pytest.approx(1 - (1 + 1) / (4 + 4))


def test_no_link_at_all_has_no_rate() -> None:
    with pytest.raises(ValueError, match="at least one link"):
        alignment_error_rate([links()], [gold("0?0")])


@pytest.mark.parametrize("text", ["0", "0-", "a-b", "0-1-2", "-1-0", "0--1"])
def test_a_link_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a link is"):
        parse_links(text)


def test_possible_links_contain_the_sure_ones() -> None:
    assert parse_links("0-0 1?2") == (links((0, 0)), links((0, 0), (1, 2)))

"""Word alignment by attention and its error rate."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

from pathlib import Path

import pytest
import torch

from training.alignment import AlignedPair, align, alignment_error_rate, merge, read_alignments
from training.rnn import Rnn, RnnConfig
from training.vocabulary import Vocabulary


def pair(sure: set[tuple[int, int]], possible: set[tuple[int, int]]) -> AlignedPair:
    return AlignedPair(source=("a", "b"), target=("c", "d"), sure=frozenset(sure), possible=frozenset(sure | possible))


def test_links_are_read_as_sure_or_possible(tmp_path: Path) -> None:
    path = tmp_path / "gold.tsv"
    path.write_text("a well-known b\tc d\t0-0 2?1\n")
    (found,) = read_alignments(path)
    assert found.source == ("a", "well-known", "b")
    assert (found.sure, found.possible) == ({(0, 0)}, {(0, 0), (2, 1)})


def test_lines_of_another_form_are_named(tmp_path: Path) -> None:
    path = tmp_path / "gold.tsv"
    path.write_text("a\tb\t0-0\na\tb\n")
    with pytest.raises(ValueError, match="Line 2 of"):
        read_alignments(path)


@pytest.mark.parametrize(
    ("found", "rate"),
    [({(0, 0), (1, 1)}, 0.0), ({(0, 1), (1, 0)}, 0.75), ({(0, 0)}, 1 - 2 / 3), ({(0, 0), (1, 1), (1, 0)}, 0.0)],
)
def test_error_rate_is_that_of_the_paper(found: set[tuple[int, int]], rate: float) -> None:
    gold = [pair({(0, 0), (1, 1)}, {(1, 0)})]
    assert alignment_error_rate([frozenset(found)], gold) == pytest.approx(rate)


def test_pieces_are_summed_over_source_words_and_averaged_over_target_words() -> None:
    attention = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.2, 0.2, 0.6]])
    merged = merge(attention, [0, 0, 1], [0, 0, None])
    torch.testing.assert_close(merged, torch.tensor([[0.625, 0.375]]))


def test_every_target_word_is_linked_once(learnt: tuple[Vocabulary, int]) -> None:
    vocabulary, output = learnt
    torch.manual_seed(6)
    model = Rnn(
        RnnConfig(vocabulary=vocabulary.size, output=output, embedding=8, encoder=4, decoder=8, attention=4)
    ).eval()
    words = AlignedPair(
        source=("We", "know", "the", "«", "way", "»"),
        target=("Sabemos", "el", "camino"),
        sure=frozenset(),
        possible=frozenset(),
    )
    links = align(model, vocabulary, words)
    assert sorted(target for _, target in links) == [0, 1, 2]
    assert all(0 <= source < 6 for source, _ in links)

"""Word alignment by attention and its error rate."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from regard.training.data.vocabulary import Vocabulary
from regard.training.decoding.alignment import AlignedPair, align, align_by, average, merge, read_alignments
from regard.training.models.rnn import Rnn, RnnConfig


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


def test_pieces_are_summed_over_source_words_and_averaged_over_target_words() -> None:
    attention = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.2, 0.2, 0.6]])
    merged = merge(attention, [0, 0, 1], [0, 0, None])
    torch.testing.assert_close(merged, torch.tensor([[0.625, 0.375]]))


def test_chosen_heads_are_averaged_and_none_stand_for_all() -> None:
    attention = torch.rand(1, 3, 2, 2, 4)
    torch.testing.assert_close(average(attention, ((0, 1), (1, 0))), attention[:, :, [0, 1], [1, 0]].mean(dim=2))
    torch.testing.assert_close(average(attention, ()), attention.mean(dim=(2, 3)))


class Looks:
    """A model whose step number i looks at source piece i alone."""

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        steps, pieces = target_in.shape[1], source.shape[1]
        return target_in, torch.eye(steps, pieces).view(1, steps, 1, 1, pieces)


@pytest.mark.parametrize(("lag", "expected"), [(0, {(0, 0), (1, 1)}), (1, {(1, 0), (2, 1)})])
def test_with_a_lag_words_are_linked_by_the_step_that_is_fed_them(
    vocabulary: Vocabulary, lag: int, expected: set[tuple[int, int]]
) -> None:
    entries = sorted(token.removeprefix("▁") for token in vocabulary.tokenizer.get_vocab())
    first, second, third = [word for word in entries if word.isalpha() and len(vocabulary.encode(word)) == 2][:3]
    words = AlignedPair(source=(first, second, third), target=(third, first), sure=frozenset(), possible=frozenset())
    (links,) = align_by(cast(Any, Looks()), vocabulary, words, [()], lag=lag)
    assert links == expected


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

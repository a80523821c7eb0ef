"""Greedy and beam search: what is found, and that company and padding do not matter."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import itertools
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.training.data.vocabulary import BEGIN, END
from regard.training.decoding.search import Hypothesis, SearchConfig, search, search_all
from regard.training.models.rnn import Rnn

SOURCE = torch.tensor([[5, 6, 7, 3, 0], [8, 3, 0, 0, 0], [11, 10, 9, 9, 3], [4, 3, 0, 0, 0]])
LENGTH = torch.tensor([4, 2, 5, 2])


class Table(NamedTuple):
    """Memory and state of the model below."""

    values: Tensor


class TableModel:
    """A model whose scores depend on the previous token alone, by a table [previous, next]."""

    def __init__(self, probabilities: list[list[float]]) -> None:
        self.table = torch.tensor(probabilities).log()

    @property
    def output(self) -> torch.nn.Linear:
        """Not used in search."""
        raise NotImplementedError

    @property
    def attention_axes(self) -> tuple[int, int]:
        """One layer and head."""
        return 1, 1

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[Table, Table]:
        """Remember nothing but the length."""
        return Table(source_length.unsqueeze(1).float()), Table(source_length.unsqueeze(1).float())

    def step(self, token: Tensor, state: Table, memory: Table) -> tuple[Tensor, Table, Tensor]:
        """Look the token up."""
        return self.table[token], state, torch.ones(len(token), 1, 1, 1)

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Not used in search."""
        raise NotImplementedError


def table(rows: dict[int, list[float]], vocabulary: int = 6) -> TableModel:
    """Make a model from the rows for tokens 2 and above, each over all of the vocabulary."""
    empty = [0.0] * vocabulary
    return TableModel([rows.get(token, empty) for token in range(vocabulary)])


def find(model: TableModel, config: SearchConfig) -> list[Hypothesis]:
    """Search with a source of one token."""
    return search(model, torch.tensor([[END]]), torch.tensor([1]), config)[0]


def same(found: Hypothesis, expected: Hypothesis) -> None:
    """Compare two hypotheses, numbers within rounding."""
    assert found.tokens == expected.tokens
    assert found.finish == expected.finish
    assert found.score == pytest.approx(expected.score, abs=1e-5)
    torch.testing.assert_close(found.attention, expected.attention, atol=1e-5, rtol=0)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_company_and_padding_do_not_matter(model: Rnn, beam_size: int) -> None:
    config = SearchConfig(beam_size=beam_size)
    together = search(model, SOURCE, LENGTH, config)
    for row, length in enumerate(LENGTH.tolist()):
        (alone,) = search(model, SOURCE[row : row + 1, :length], LENGTH[row : row + 1], config)
        assert len(together[row]) == len(alone) == beam_size
        for found, expected in zip(together[row], alone, strict=True):
            same(found, expected)


def test_sources_of_all_lengths_come_back_in_their_order(model: Rnn) -> None:
    sources = [row[:length] for row, length in zip(SOURCE.tolist(), LENGTH.tolist(), strict=True)]
    config = SearchConfig(beam_size=2)
    for found, expected in zip(
        search_all(model, sources, config, rows=4), search(model, SOURCE, LENGTH, config), strict=True
    ):
        same(found[0], expected[0])


@torch.inference_mode()
def score_of(model: Rnn, tokens: tuple[int, ...]) -> float:
    """Return the mean log-probability of a whole target by the model itself, for the first source."""
    target_in = torch.tensor([[BEGIN, *tokens[:-1]]])
    features, _ = model(SOURCE[:1, :4], LENGTH[:1], target_in)
    scores = torch.log_softmax(model.output(features), dim=2)[0]
    return float(scores[range(len(tokens)), list(tokens)].sum()) / len(tokens)


def test_a_wide_beam_finds_the_best_of_all_targets(model: Rnn) -> None:
    words = range(END + 1, 9)
    targets = [(*body, END) for size in range(3) for body in itertools.product(words, repeat=size)]
    targets += list(itertools.product(words, repeat=3))
    best = max(targets, key=lambda tokens: score_of(model, tokens))
    (found,) = search(model, SOURCE[:1, :4], LENGTH[:1], SearchConfig(beam_size=len(targets), max_length=3))
    assert found[0].tokens == best
    assert found[0].score == pytest.approx(score_of(model, best), abs=1e-5)
    assert {hypothesis.tokens for hypothesis in found} == set(targets)


def test_scores_are_sums_of_their_log_probabilities_over_length(model: Rnn) -> None:
    for hypotheses in search(model, SOURCE, LENGTH, SearchConfig(beam_size=3, length_penalty=0.6)):
        for found in hypotheses:
            assert len(found.log_probabilities) == len(found.tokens) == len(found.attention)
            assert found.score == pytest.approx(sum(found.log_probabilities) / len(found.tokens) ** 0.6, abs=1e-5)


def test_attention_rows_follow_their_hypothesis(model: Rnn) -> None:
    for row, hypotheses in enumerate(search(model, SOURCE, LENGTH, SearchConfig(beam_size=3))):
        length = int(LENGTH[row])
        for found in hypotheses:
            target_in = torch.tensor([[BEGIN, *found.tokens[:-1]]])
            with torch.inference_mode():
                _, attention = model(SOURCE[row : row + 1, :length], LENGTH[row : row + 1], target_in)
            torch.testing.assert_close(found.attention, attention[0], atol=1e-5, rtol=0)


def test_a_beam_finds_what_greedy_search_misses() -> None:
    model = table({2: [0, 0, 0, 0, 0.6, 0.4], 4: [0, 0, 0, 0.3, 0.4, 0.3], 5: [0, 0, 0, 1.0, 0, 0]})
    assert find(model, SearchConfig(max_length=4))[0].tokens[0] == 4
    assert find(model, SearchConfig(beam_size=2, max_length=4))[0].tokens == (5, END)


def test_length_limit_cuts_and_says_so() -> None:
    model = table({2: [0, 0, 0, 0, 1.0, 0], 4: [0, 0, 0, 0, 1.0, 0]})
    (found,) = find(model, SearchConfig(max_length=3))
    assert found.tokens == (4, 4, 4)
    assert found.finish == "length"


def test_default_limit_grows_with_the_source_up_to_a_bound() -> None:
    assert [SearchConfig().limit(length) for length in (1, 20, 123, 124)] == [12, 50, 256, 256]


def test_special_tokens_are_never_generated() -> None:
    model = table({2: [0.3, 0.3, 0.3, 0.06, 0.04, 0], 4: [0.5, 0.4, 0, 0.1, 0, 0]})
    for found in find(model, SearchConfig(beam_size=4, max_length=3)):
        assert not {0, 1, 2} & set(found.tokens)


def test_runs_of_tokens_do_not_come_again_where_that_is_asked_for() -> None:
    # Left alone it says 4 5 4 5 ... for ever.
    turns = table({2: [0, 0, 0, 0.1, 0.9, 0], 4: [0, 0, 0, 0.1, 0.2, 0.7], 5: [0, 0, 0, 0.1, 0.7, 0.2]})
    said = {size: find(turns, SearchConfig(max_length=8, no_repeat_ngram=size))[0].tokens for size in (0, 1, 2, 3)}
    assert said[0] == (4, 5, 4, 5, 4, 5, 4, 5)
    assert said[1] == (4, 5, END)
    assert said[2] == (4, 5, 4, 4, END)
    assert said[3] == (4, 5, 4, 5, 5, 4, 4, 5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_no_hypothesis_says_a_run_twice(model: Rnn, beam_size: int) -> None:
    config = SearchConfig(beam_size=beam_size, max_length=20, no_repeat_ngram=2)
    for found in search(model, SOURCE, LENGTH, config):
        for hypothesis in found:
            pairs = list(itertools.pairwise(hypothesis.tokens))
            assert len(set(pairs)) == len(pairs)


def test_no_hypothesis_is_found_twice_when_few_exist() -> None:
    model = table({2: [0, 0, 0, 0.5, 0.5, 0], 4: [0, 0, 0, 1.0, 0, 0]})
    found = find(model, SearchConfig(beam_size=5, max_length=4))
    assert [hypothesis.tokens for hypothesis in found] == [(4, END), (END,)]


@pytest.mark.parametrize("settings", [{"beam_size": 0}, {"max_length": 0}])
def test_impossible_searches_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="is 0, but"):
        SearchConfig(**settings)

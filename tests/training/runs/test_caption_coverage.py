"""The doubly stochastic term: every cell is to be looked at about once while a caption is written."""

# torch types backward only in part.
# pyright: reportUnknownMemberType=false

import pytest
import torch
from torch import Tensor

from regard.training.runs.coverage import uncovered


def as_attention(weights: list[list[list[float]]]) -> Tensor:
    """Weights [row, target, source] as attention of one layer and one head."""
    return torch.tensor(weights)[:, :, None, None]


def test_the_term_is_that_of_the_paper_per_token() -> None:
    attention = as_attention([[[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    real = torch.ones(2, 2, dtype=torch.bool)
    # Rows have seen their cells (1, 0.75, 0.25) and (1, 0, 1) times: 0.0625 + 0.5625 and 1, over 4 tokens.
    assert uncovered(attention, real).item() == pytest.approx((0.0625 + 0.5625 + 1.0) / 4)


def test_a_cell_looked_at_once_each_costs_nothing() -> None:
    attention = torch.eye(3)[None, :, None, None]
    assert uncovered(attention, torch.ones(1, 3, dtype=torch.bool)).item() == 0.0


def test_steps_beyond_the_end_do_not_count() -> None:
    attention = as_attention([[[1.0, 0.0], [0.0, 1.0]]])
    assert uncovered(attention, torch.tensor([[True, False]])).item() == pytest.approx(1.0)


def test_of_several_heads_the_mean_counts() -> None:
    heads = torch.tensor([[1.0, 0.0], [0.0, 1.0]])[None, None, None]
    assert uncovered(heads, torch.ones(1, 1, dtype=torch.bool)).item() == pytest.approx(0.5)


def test_less_of_it_spreads_the_look() -> None:
    energy = torch.tensor([[[2.0, 0.0, 0.0]], [[2.0, 0.0, 0.0]]], requires_grad=True)
    attention = energy.softmax(-1).transpose(0, 1)[:, :, None, None]
    uncovered(attention, torch.ones(1, 2, dtype=torch.bool)).backward()
    assert energy.grad is not None
    assert (energy.grad[:, 0, 0] > 0).all()
    assert (energy.grad[:, 0, 1:] < 0).all()

"""Additive attention: what its weights are, whatever it looks at."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import torch
from torch import Tensor

from regard.training.models.attention import AdditiveAttention


def look(mask: Tensor) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    attention = AdditiveAttention(query_dim=5, memory_dim=4, dim=3)
    values = torch.randn(*mask.shape, 4)
    return attention(torch.randn(mask.shape[0], 5), attention.project(values), values, mask)


def test_weights_sum_to_one_over_real_positions() -> None:
    mask = torch.tensor([[True, True, True, True], [True, True, False, False], [False, True, False, True]])
    _, weights = look(mask)
    torch.testing.assert_close((weights * mask).sum(dim=1), torch.ones(3))


def test_padding_has_exactly_no_weight() -> None:
    mask = torch.tensor([[True, True, False, False], [True, False, False, False]])
    _, weights = look(mask)
    assert torch.all(weights[~mask] == 0.0)


def test_a_row_without_any_real_position_gets_zeros() -> None:
    context, weights = look(torch.tensor([[False, False, False]]))
    assert torch.all(weights == 0.0)
    assert torch.all(context == 0.0)


def test_a_row_without_any_real_position_passes_finite_gradients() -> None:
    torch.manual_seed(1)
    attention = AdditiveAttention(query_dim=5, memory_dim=4, dim=3)
    values = torch.randn(1, 3, 4, requires_grad=True)
    context, _ = attention(torch.randn(1, 5), attention.project(values), values, torch.zeros(1, 3, dtype=torch.bool))
    context.sum().backward()
    assert values.grad is not None
    assert torch.all(torch.isfinite(values.grad))


def test_context_is_the_weighted_sum_of_values() -> None:
    torch.manual_seed(2)
    attention = AdditiveAttention(query_dim=2, memory_dim=4, dim=3)
    values = torch.randn(2, 5, 4)
    context, weights = attention(
        torch.randn(2, 2), attention.project(values), values, torch.ones(2, 5, dtype=torch.bool)
    )
    torch.testing.assert_close(context, torch.einsum("bs,bsd->bd", weights, values))

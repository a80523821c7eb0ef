"""The fused loss: the same numbers and gradients as torch's own."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.training.learning.loss import smoothed_cross_entropy


def tensors() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(4)
    features, weight, bias = torch.randn(3, 5, 4), torch.randn(11, 4), torch.randn(11)
    target = torch.randint(11, (3, 5))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    for each in (features, weight, bias):
        each.requires_grad_()
    return features, weight, bias, target, mask


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 4, 512])
def test_value_and_gradients_are_those_of_cross_entropy(smoothing: float, chunk: int) -> None:
    features, weight, bias, target, mask = tensors()
    loss = smoothed_cross_entropy(features, weight, bias, target, mask, smoothing=smoothing, chunk=chunk)
    scores = functional.linear(features, weight, bias)
    expected = functional.cross_entropy(scores[mask], target[mask], label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)
    inputs = (features, weight, bias)
    # Scaled, because a loss is rarely the end of a graph.
    torch.testing.assert_close(torch.autograd.grad(loss * 3, inputs), torch.autograd.grad(expected * 3, inputs))


def test_padding_is_not_measured() -> None:
    features, weight, bias, target, mask = tensors()
    loss = smoothed_cross_entropy(features, weight, bias, target, mask, smoothing=0.1)
    other = torch.where(mask.unsqueeze(2), features, features + 5)
    torch.testing.assert_close(smoothed_cross_entropy(other, weight, bias, target, mask, smoothing=0.1), loss)


def test_a_batch_of_nothing_but_padding_costs_nothing() -> None:
    features, weight, bias, target, mask = tensors()
    loss = smoothed_cross_entropy(features, weight, bias, target, mask & False, smoothing=0.1)
    assert float(loss.detach()) == 0.0


def test_scores_too_large_for_exponentials_stay_finite() -> None:
    features, weight, bias, target, mask = tensors()
    loss = smoothed_cross_entropy(features, weight * 1e4, bias, target, mask, smoothing=0.1)
    assert torch.isfinite(loss)

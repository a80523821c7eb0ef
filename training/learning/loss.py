"""Computes label-smoothed cross-entropy over a vocabulary, together with the linear layer before it."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class _FusedLoss(Function):
    """Linear layer and loss a few rows at a time, with gradients made at once while the logits are in the cache.

    Keeping all logits [row, vocabulary] for the backward pass costs more time than it saves. Everything kept goes
    through `save_for_backward`: tensors kept in a Python list would keep the whole graph alive.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]  torch types it as (*args, **kwargs)
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, target: Tensor, smoothing: float, chunk: int
    ) -> Tensor:
        vocabulary = weight.shape[0]
        total = features.new_zeros(())
        feature_gradient = torch.empty_like(features)
        weight_gradient = torch.zeros_like(weight)
        bias_gradient = torch.zeros_like(bias)
        for start in range(0, features.shape[0], chunk):
            rows = features[start : start + chunk]
            right = target[start : start + chunk].unsqueeze(1)
            logits = torch.addmm(bias, rows, weight.t())
            gradient = torch.softmax(logits, dim=1)
            # The sum over exponentials, from the largest score and its share: one pass over the vocabulary less.
            log_total = logits.amax(dim=1) - gradient.amax(dim=1).log()
            total += log_total.sum()
            total -= (1.0 - smoothing) * logits.gather(1, right).sum() + smoothing / vocabulary * logits.sum()
            gradient -= smoothing / vocabulary
            gradient.scatter_add_(1, right, gradient.new_full(right.shape, smoothing - 1.0))
            torch.mm(gradient, weight, out=feature_gradient[start : start + chunk])
            weight_gradient.addmm_(gradient.t(), rows)
            bias_gradient += gradient.sum(dim=0)
        ctx.save_for_backward(feature_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  torch types it as (*args)
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        feature_gradient, weight_gradient, bias_gradient = ctx.saved_tensors
        return feature_gradient * gradient, weight_gradient * gradient, bias_gradient * gradient, None, None, None


def smoothed_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor, target: Tensor, mask: Tensor, *, smoothing: float, chunk: int = 512
) -> Tensor:
    """Return the mean loss over real target positions: Szegedy et al. 2016, section 7.

    features [batch, target, dim], weight [vocabulary, dim], bias [vocabulary], target int64 [batch, target], mask bool
    [batch, target], True where the target is real. The right token has probability 1 - smoothing in the distribution
    that is compared with, and all tokens share the rest evenly.
    """
    # In full precision whatever the rest of the network computes in: the sum over a vocabulary loses too much in half.
    with torch.autocast(features.device.type, enabled=False):
        rows = features[mask].float()
        total = cast(
            Tensor,
            _FusedLoss.apply(rows, weight.float(), bias.float(), target[mask], smoothing, chunk),  # pyright: ignore[reportUnknownMemberType]  torch leaves apply untyped
        )
        return total / max(rows.shape[0], 1)

"""Penalises a decoder that does not attend to every cell about once: Xu et al. 2015, section 4.2.1."""

from torch import Tensor


def uncovered(attention: Tensor, real: Tensor) -> Tensor:
    """Return sum_i (1 - sum_t a_{t,i})^2, summed over rows and divided by the number of tokens.

    attention [row, target, layer, head, source], of which the mean over layers and heads is taken; real bool
    [row, target], True where there is a token. The weights of a step sum to 1 over cells; those of a cell need not over
    steps, and this "doubly stochastic" term asks for it. Divided by tokens, as the loss that it is added to.
    """
    weights = attention.float().mean(dim=(2, 3))
    seen = (weights * real.unsqueeze(2)).sum(dim=1)
    return (1.0 - seen).square().sum() / real.sum()

"""Computes additive attention, the weighted look of a decoder at what was read.

It does not know what the memory came from, words or pixels, nor which network asks.
"""

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """e_i = v . tanh(W q + U h_i), a = softmax(e), c = sum_i a_i h_i.

    Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A.1.2.
    The keys U h_i do not depend on the query, so `project` makes them once for all steps and the caller keeps them.
    """

    def __init__(self, *, query_dim: int, memory_dim: int, dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_dim, dim)
        self.key = nn.Linear(memory_dim, dim, bias=False)
        self.energy = nn.Linear(dim, 1, bias=False)

    def project(self, memory: Tensor) -> Tensor:
        """Turn memory [batch, source, memory_dim] into keys [batch, source, dim]."""
        return self.key(memory)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Look at values through keys.

        query [batch, query_dim], keys [batch, source, dim], values [batch, source, memory_dim], mask bool
        [batch, source], True where the position is real -> context [batch, memory_dim], weights [batch, source].
        Weights sum to 1 over real positions and are exactly 0 elsewhere; a row with no real position gets only zeros.
        """
        energy = self.energy(torch.tanh(keys + self.query(query).unsqueeze(1))).squeeze(2)
        # A finite floor and not -inf: softmax over a row of -inf would be NaN, and the product below makes it zeros.
        floor = torch.finfo(energy.dtype).min
        weights = torch.softmax(energy.masked_fill(~mask, floor), dim=1) * mask.to(energy.dtype)
        context = torch.matmul(weights.unsqueeze(1), values).squeeze(1)
        return context, weights

"""Computes attention, the weighted look of queries at what was read: additive or by products, in one head or many.

It does not know what the memory came from, words or pixels, nor which network asks. Every layer returns what it found
and the weights it looked with.
"""

import torch
from torch import Tensor, nn


def masked_softmax(energy: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax of energy [..., source] over its last axis, as if it were -inf where mask is False.

    mask is bool and broadcast to energy, or None where everything is real. Weights are exactly 0 where it is False; a
    row without a real position gets only zeros and not NaN.
    """
    if mask is None:
        return torch.softmax(energy, dim=-1)
    # A finite floor and not -inf: softmax over a row of -inf would be NaN, and the product makes it zeros.
    floor = torch.finfo(energy.dtype).min
    return torch.softmax(energy.masked_fill(~mask, floor), dim=-1) * mask.to(energy.dtype)


def check_sizes(**sizes: int) -> None:
    """Raise ValueError for a size below 1, by its name."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} is {size}, but it is at least 1.")


class AdditiveAttention(nn.Module):
    """e_i = v . tanh(W q + U h_i), a = softmax(e), c = sum_i a_i h_i.

    Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A.1.2.
    The keys U h_i do not depend on the query, so `project` makes them once for all steps and the caller keeps them.

    Raises ValueError for a size below 1.
    """

    def __init__(self, *, query_dim: int, memory_dim: int, dim: int) -> None:
        super().__init__()
        check_sizes(query_dim=query_dim, memory_dim=memory_dim, dim=dim)
        self.query = nn.Linear(query_dim, dim)
        self.key = nn.Linear(memory_dim, dim, bias=False)
        self.energy = nn.Linear(dim, 1, bias=False)

    def project(self, memory: Tensor) -> Tensor:
        """Turn memory [batch, source, memory_dim] into keys [batch, source, dim]."""
        return self.key(memory)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Look at values through keys.

        query [batch, query_dim], keys [batch, source, dim], values [batch, source, memory_dim], mask bool
        [batch, source], True where the position is real, None where all are -> context [batch, memory_dim], weights
        [batch, source].
        Weights sum to 1 over real positions and are exactly 0 elsewhere; a row with no real position gets only zeros.
        """
        energy = self.energy(torch.tanh(keys + self.query(query).unsqueeze(1))).squeeze(2)
        weights = masked_softmax(energy, mask)
        context = torch.matmul(weights.unsqueeze(1), values).squeeze(1)
        return context, weights

    def ask_many(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Look at the same values with many queries, which costs less than copies of the values.

        queries [batch, query, query_dim], keys [batch, source, dim], values [batch, source, memory_dim] -> contexts
        [batch, query, memory_dim], weights [batch, query, source].
        """
        energy = self.energy(torch.tanh(keys.unsqueeze(1) + self.query(queries).unsqueeze(2))).squeeze(3)
        weights = masked_softmax(energy, None)
        return torch.matmul(weights, values), weights


def scaled_dot_product(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """E = Q K^T / sqrt(D_Q), A = softmax of E over the source axis, Y = A V: Vaswani et al. 2017, section 3.2.1.

    queries [..., query, D_Q], keys [..., source, D_Q], values [..., source, D_V], mask bool broadcast to
    [..., query, source], True where a query may look -> Y [..., query, D_V], A [..., query, source]. With K = V = X it
    is the attention of one or many queries over inputs X. What is masked has to be finite all the same: 0 times NaN is
    NaN.

    Raises ValueError where queries and keys differ in size: only a product with weights W_K can make them comparable.
    """
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"Queries have D_Q = {queries.shape[-1]} and keys {keys.shape[-1]}: their product needs equal sizes, or "
            f"weights W_K [{keys.shape[-1]}, {queries.shape[-1]}] before it."
        )
    energy = torch.matmul(queries * queries.shape[-1] ** -0.5, keys.transpose(-2, -1))
    weights = masked_softmax(energy, mask)
    return torch.matmul(weights, values), weights


class KeyValueAttention(nn.Module):
    """K = X W_K, V = X W_V, Y = softmax(Q K^T / sqrt(D_Q)) V: a key indexes, a value carries.

    One head of Vaswani et al. 2017, section 3.2.2, whose queries come as they are. W_K [D_X, D_Q] makes inputs of any
    size comparable with queries; the size D_V of the values, W_V [D_X, D_V], is free.

    Raises ValueError for a size below 1.
    """

    def __init__(self, *, query_dim: int, memory_dim: int, value_dim: int) -> None:
        super().__init__()
        check_sizes(query_dim=query_dim, memory_dim=memory_dim, value_dim=value_dim)
        self.key = nn.Linear(memory_dim, query_dim, bias=False)
        self.value = nn.Linear(memory_dim, value_dim, bias=False)

    def forward(self, queries: Tensor, memory: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Look at memory X [batch, source, memory_dim] with queries [batch, query, query_dim].

        mask bool broadcast to [batch, query, source] -> Y [batch, query, value_dim], A [batch, query, source].
        """
        return scaled_dot_product(queries, self.key(memory), self.value(memory), mask)


class SelfAttention(nn.Module):
    """Q = X W_Q, K = X W_K, V = X W_V: every input asks all inputs.

    Vaswani et al. 2017, section 3.2.3. It sees a set: inputs in another order give the same results in that order.

    Raises ValueError for a size below 1.
    """

    def __init__(self, *, dim: int, query_dim: int, value_dim: int) -> None:
        super().__init__()
        check_sizes(dim=dim, query_dim=query_dim, value_dim=value_dim)
        self.query = nn.Linear(dim, query_dim, bias=False)
        self.attention = KeyValueAttention(query_dim=query_dim, memory_dim=dim, value_dim=value_dim)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Look from inputs X [batch, source, dim] at themselves.

        mask bool broadcast to [batch, source, source] -> Y [batch, source, value_dim], A [batch, source, source].
        """
        return self.attention(self.query(inputs), inputs, mask)


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Return bool [length, length]: position i may look at j <= i alone (Vaswani et al. 2017, section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class MultiHeadAttention(nn.Module):
    """h heads look each through its own part of queries, keys and values; what they found is joined and projected.

    Vaswani et al. 2017, section 3.2.2. Keys and values do not depend on the queries, so `project` makes them, once for
    a memory that is asked many times.

    Raises ValueError where dim is not a multiple of heads, and for a size below 1.
    """

    def __init__(self, *, dim: int, heads: int, memory_dim: int | None = None) -> None:
        super().__init__()
        memory_dim = dim if memory_dim is None else memory_dim
        check_sizes(dim=dim, memory_dim=memory_dim)
        if heads < 1 or dim % heads:
            raise ValueError(f"dim is {dim} and heads {heads}, but dim has to be a multiple of heads.")
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(memory_dim, 2 * dim)
        self.output = nn.Linear(dim, dim)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Turn memory [batch, source, memory_dim] into keys and values, each [batch, head, source, dim / head]."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def forward(self, inputs: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Look from inputs [batch, query, dim] at values through keys, both as `project` makes them.

        mask bool broadcast to [batch, head, query, source] -> context [batch, query, dim], weights
        [batch, head, query, source].
        """
        context, weights = scaled_dot_product(self._split(self.query(inputs)), keys, values, mask)
        return self.output(context.transpose(1, 2).flatten(2)), weights

    def _split(self, values: Tensor) -> Tensor:
        return torch.unflatten(values, -1, (self.heads, -1)).transpose(1, 2)

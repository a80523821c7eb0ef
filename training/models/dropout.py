"""Drops activations with masks cut from a pool drawn once, several times faster than fresh random numbers on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

POOL_SIZE = 1 << 22


class PooledDropout(nn.Module):
    """Dropout whose masks are slices at random offsets of one pool of scaled Bernoulli draws.

    Drawing random numbers is the dearest part of dropout on a CPU; a slice of a pool much larger than any activation is
    as good a mask. Larger activations, and other devices, where drawing is cheap, take the ordinary way.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        # A plain attribute and not a buffer: weight averaging and checkpoints must not touch it.
        self._pool: Tensor | None = None

    def forward(self, values: Tensor) -> Tensor:
        """Return values [...], each element zeroed with the given probability and the rest scaled to keep the mean."""
        if not self.training or self.probability == 0.0:
            return values
        count = values.numel()
        if values.device.type != "cpu" or count * 4 > POOL_SIZE:
            return functional.dropout(values, self.probability)
        if self._pool is None:
            keep = 1.0 - self.probability
            self._pool = torch.empty(POOL_SIZE).bernoulli_(keep).div_(keep)
        offset = int(torch.randint(POOL_SIZE - count, ()))
        return values * self._pool[offset : offset + count].view(values.shape)

"""Adds positions to a network's inputs, which attention alone cannot tell apart."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

Kind = Literal["sinusoidal", "learned", "none"]
Combination = Literal["add", "concatenate"]
KINDS = ("sinusoidal", "learned", "none")
COMBINATIONS = ("add", "concatenate")


def sinusoids(positions: int, dim: int) -> Tensor:
    """Return [positions, dim]: sines in the first half, cosines of the same angles in the second.

    Wavelengths grow from 2 pi to 10000 * 2 pi: Vaswani et al. 2017, section 3.5, with its interleaved axes sorted.
    """
    half = (dim + 1) // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000.0) / max(half - 1, 1)))
    angles = torch.arange(positions).unsqueeze(1) * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)[:, :dim]


class Positions(nn.Module):
    """Adds a code of its position to every input, or concatenates it and projects back to the inputs' size.

    "sinusoidal" is computed, "learned" are weights (Gehring et al. 2017, section 3.1), "none" leaves inputs as they
    are. `longest` positions are told apart; the last code stands for any beyond.

    Raises ValueError for a kind or combination that there is not, a dim below 1, or where no position is told apart.
    """

    # Computed, so no checkpoint holds it.
    sinusoidal: Tensor

    def __init__(self, *, dim: int, kind: Kind, combination: Combination = "add", longest: int = 512) -> None:
        super().__init__()
        for name, value, known in (("positions", kind, KINDS), ("combination", combination, COMBINATIONS)):
            if value not in known:
                raise ValueError(f"{name} is {value!r}, but it is one of {', '.join(known)}.")
        if dim < 1:
            raise ValueError(f"dim is {dim}, but it is at least 1.")
        if longest < 1:
            raise ValueError(f"longest is {longest}, but at least 1 position has to have a code.")
        self.kind = kind
        self.combination = combination
        self.longest = longest
        if kind == "sinusoidal":
            self.register_buffer("sinusoidal", sinusoids(longest, dim), persistent=False)
        elif kind == "learned":
            self.learned = nn.Parameter(torch.randn(longest, dim) * dim**-0.5)
        if kind != "none" and combination == "concatenate":
            self.joined = nn.Linear(2 * dim, dim)

    def forward(self, inputs: Tensor, positions: Tensor) -> Tensor:
        """Mark inputs [batch, source, dim] with positions int64 from 0, broadcast to [batch, source].

        Returns marked inputs [batch, source, dim].
        """
        if self.kind == "none":
            return inputs
        table = self.sinusoidal if self.kind == "sinusoidal" else self.learned
        codes = table[positions.clamp(max=self.longest - 1)]
        if self.combination == "add":
            return inputs + codes
        return self.joined(torch.cat((inputs, codes.expand_as(inputs)), dim=-1))

"""States the contract that every model meets: read a source once, then decode it token by token.

It does not know any model, nor how one is trained, exported or served.
"""

from typing import Protocol, TypeVar

from torch import Tensor

Memory = TypeVar("Memory", bound=tuple[Tensor, ...])
State = TypeVar("State", bound=tuple[Tensor, ...])


class Output(Protocol):
    """The last linear layer: features [..., dim] to unnormalised scores [..., vocabulary]."""

    @property
    def weight(self) -> Tensor:
        """Weights [vocabulary, dim]."""
        ...

    @property
    def bias(self) -> Tensor:
        """Bias [vocabulary]."""
        ...


class SequenceModel(Protocol[Memory, State]):
    """An encoder-decoder with its attention kept.

    Memory and State are NamedTuples of tensors whose first axis is batch. Memory is what is attended to and never
    changes during decoding; State is what each step replaces. Nothing is kept on the model between calls.
    """

    @property
    def output(self) -> Output:
        """The layer that turns the features of `forward` into scores."""
        ...

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[Memory, State]:
        """Read source int64 [batch, source], of which the first source_length int64 [batch] are real."""
        ...

    def step(self, token: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """Feed the previous token int64 [batch] and predict the next.

        Returns log-probabilities float32 [batch, vocabulary], the next state, and attention
        [batch, layer, head, source] whose rows sum to 1 over real positions and are exactly 0 on padding.
        """
        ...

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed a whole known target, target_in int64 [batch, target], at once.

        Returns features [batch, target, dim], for `output`, and attention [batch, target, layer, head, source]:
        position i is what `step` would give for token i.
        """
        ...

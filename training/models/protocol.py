"""Defines the contract that every model meets: read a source once, then decode it token by token.

A model that is trained, exported and served knows nothing of how that is done; it only has these members.
"""

from typing import Any, Protocol, TypeVar

from torch import Tensor

Memory = TypeVar("Memory", bound=tuple[Tensor, ...])
State = TypeVar("State", bound=tuple[Tensor, ...])


class Output(Protocol):
    """The last linear layer: features [..., dim] to logits [..., output vocabulary]."""

    @property
    def weight(self) -> Tensor:
        """Weights [output vocabulary, dim]."""
        ...

    @property
    def bias(self) -> Tensor:
        """Bias [output vocabulary]."""
        ...


class SequenceModel(Protocol[Memory, State]):
    """An encoder-decoder that returns its attention.

    Memory and State are NamedTuples of tensors whose first axis is batch. Memory is what is attended to and stays the
    same during decoding; State is what each step replaces. Nothing is kept on the model between calls.

    A field of State may grow, as a KV cache does: `encode` returns it with size 0 on one axis, and every step appends
    one entry on that axis. Such a State has a field `position` int64 [batch] too, the tokens fed so far, which `encode`
    returns as zeros. Only the first `position` entries of a row are real: whatever else lies there, `step` must give it
    no influence. While training decodes, all entries are real; in an exported graph rows of different ages share a
    buffer.
    """

    @property
    def output(self) -> Output:
        """The layer that turns the features of `forward` into logits."""
        ...

    @property
    def attention_axes(self) -> tuple[int, int]:
        """How many layers and heads the attention has that `step` returns; (0, 0) for a model without attention."""
        ...

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[Memory, State]:
        """Read source int64 [batch, source], of which the first source_length int64 [batch] are real."""
        ...

    def step(self, token: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """Feed the previous token int64 [batch] and predict the next.

        Returns log-probabilities float32 [batch, output vocabulary], the next state, and attention
        [batch, layer, head, source] whose rows sum to 1 over real positions and are exactly 0 on padding; its axes but
        batch have size 0 for a model without attention.
        """
        ...

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed a whole known target, target_in int64 [batch, target], at once.

        Returns features [batch, target, dim], for `output`, and attention [batch, target, layer, head, source]:
        position i is what `step` would give for token i.
        """
        ...


class ModelConfig(Protocol):
    """What the configuration of every family says; it is a frozen dataclass that JSON can hold."""

    @property
    def vocabulary(self) -> int:
        """How many ids a source may hold."""
        ...

    @property
    def output(self) -> int:
        """How many ids can be predicted: the first ones of the vocabulary."""
        ...


class ExportableModel(SequenceModel[Any, Any], Protocol):
    """A model of a family: it can be made again from its configuration, and traced."""

    @property
    def config(self) -> Any:
        """The `ModelConfig` that the model was made with."""
        ...

    def prepare_for_export(self) -> None:
        """Lay weights out for ONNX; called once, after the weights got their last values and before tracing."""
        ...

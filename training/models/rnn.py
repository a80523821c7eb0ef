"""Translates with a recurrent encoder-decoder: without attention, with one context vector, or searching its memory.

Sutskever, Vinyals and Le 2014; Cho et al. 2014; Bahdanau, Cho and Bengio 2015. It does not know words, only ids, nor
how the best sentence is searched for.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from regard.training.models.attention import AdditiveAttention
from regard.training.models.dropout import PooledDropout
from regard.training.models.output_layer import TiedOutput
from regard.training.models.recurrent import (
    UNITS,
    BidirectionalEncoder,
    Cell,
    LstmState,
    RecurrentState,
    RnnState,
    UnitName,
)

__all__ = ["FixedMemory", "LstmState", "NoMemory", "Rnn", "RnnConfig", "RnnMemory", "RnnState"]

ContextName: TypeAlias = Literal["none", "fixed", "attention"]
ReadoutName: TypeAlias = Literal["mlp", "linear"]

_CHOICES = {"context": ("none", "fixed", "attention"), "cell": tuple(UNITS), "readout": ("mlp", "linear")}


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnConfig:
    """Sizes and kinds of the network's parts; a ValueError names the values that cannot be."""

    vocabulary: int  # entries, shared by source and target
    output: int  # entries that can be predicted: the first ones
    embedding: int = 256  # also the size of the readout, which is compared with the embeddings
    encoder: int = 256  # per direction
    decoder: int = 512
    attention: int = 256  # of the keys; nothing without attention
    dropout: float = 0.2
    context: ContextName = "attention"  # what each step sees of the source besides the state it began with
    cell: UnitName = "gru"  # of encoder and decoder
    readout: ReadoutName = "mlp"  # linear leaves out the hidden layer between state and output

    def __post_init__(self) -> None:
        for name in ("vocabulary", "output", "embedding", "encoder", "decoder", "attention"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but a size is at least 1.")
        if self.output > self.vocabulary:
            raise ValueError(f"output is {self.output}, more than the vocabulary of {self.vocabulary} has.")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout is {self.dropout}, but a probability of dropping is at least 0 and less than 1.")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}, but it is one of {', '.join(choices)}.")


class RnnMemory(NamedTuple):
    """What the decoder attends to."""

    keys: Tensor  # [batch, source, attention]
    values: Tensor  # [batch, source, 2 * encoder]
    mask: Tensor  # bool [batch, source], True where the source is real


class FixedMemory(NamedTuple):
    """What every step sees of the source, whatever it asks for."""

    context: Tensor  # [batch, 2 * encoder]


class NoMemory(NamedTuple):
    """Nothing: the first state alone carries the source."""


Memory: TypeAlias = RnnMemory | FixedMemory | NoMemory


class _Attended(NamedTuple):
    """What one step sees of the source."""

    context: Tensor | None  # [batch, 2 * encoder]
    gates: Tensor | None  # what the context puts into the cell
    attention: Tensor  # [batch, layer, head, source]; every axis but batch is 0 without attention


class Rnn(nn.Module):
    """Bidirectional encoder, recurrent decoder, one embedding for source, target and output.

    c_t is what step t sees of the source, s_t = cell([y_{t-1}; c_t], s_{t-1}), and the readout of s_t, c_t and y_{t-1}
    is scored against the embeddings. `context` says what c_t is:

    - attention: e = f_att(s_{t-1}, h), a = softmax(e), c_t = sum_i a_i h_i; s_0 is made from the last state of the
      backward reader (Bahdanau et al. 2015, section 3.1 and appendix A.2.2, with tanh for maxout).
    - fixed: the last states of both readers, the same c at every step (Cho et al. 2014, section 2.2).
    - none: there is no c_t, and only s_0 carries the source (Sutskever et al. 2014).

    Without attention s_0 is made from the last states of both readers.
    """

    def __init__(self, config: RnnConfig) -> None:
        super().__init__()
        self.config = config
        memory = 2 * config.encoder
        context = 0 if config.context == "none" else memory
        states = len(UNITS[config.cell].state._fields)
        # The readers whose last states make s_0: the backward one has just read the first words.
        self._directions = (1,) if config.context == "attention" else (0, 1)
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        self.encoder = BidirectionalEncoder(config.cell, input_dim=config.embedding, dim=config.encoder)
        self.bridge = nn.Linear(states * len(self._directions) * config.encoder, states * config.decoder)
        self.attention = (
            AdditiveAttention(query_dim=config.decoder, memory_dim=memory, dim=config.attention)
            if config.context == "attention"
            else None
        )
        self.cell = Cell(config.cell, token_dim=config.embedding, context_dim=context or None, dim=config.decoder)
        self.readout = nn.Linear(config.decoder + context + config.embedding, config.embedding)
        self.output = TiedOutput(self.embedding, config.output)
        self.dropout = PooledDropout(config.dropout)
        # Read back multiplied by sqrt(dim), so that inputs have unit variance and first logits are small.
        nn.init.normal_(self.embedding.weight, std=config.embedding**-0.5)
        self.encoder.initialise()
        self.cell.initialise()

    @property
    def attention_axes(self) -> tuple[int, int]:
        """One layer with one head, or (0, 0) where there is no attention."""
        return (0, 0) if self.attention is None else (1, 1)

    def prepare_for_export(self) -> None:
        """Lay weights out for ONNX; call it once before tracing `encode` or `step`, and again after any change."""
        self.encoder.prepare_for_export()
        self.output.prepare_for_export()

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[Memory, RecurrentState]:
        """Read source int64 [batch, source], of which the first source_length int64 [batch], at least 1, are real."""
        values, last = self.encoder(self._embed(source), source_length)
        return self._remember(source, source_length, values, last), self._begin(last)

    def step(self, token: Tensor, state: RecurrentState, memory: Memory) -> tuple[Tensor, RecurrentState, Tensor]:
        """Feed token int64 [batch].

        Returns log-probs [batch, output], the next state and attention [batch, layer 1, head 1, source]; all
        its axes but batch are 0 without attention.
        """
        embedded = self._embed(token)
        attended = self._attend(state, memory)
        state = self._advance(self.cell.token(embedded), attended, state)
        log_probs = torch.log_softmax(self.output(self._read_out(state.hidden, attended.context, embedded)), dim=1)
        return log_probs, state, attended.attention

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed target_in int64 [batch, target] at once.

        Returns features [batch, target, embedding] for `output` and attention [batch, target, layer 1, head 1, source];
        its last three axes are 0 without attention.
        """
        memory, state = self.encode(source, source_length)
        embedded = self._embed(target_in)
        # Without attention every step sees the same.
        same = None if isinstance(memory, RnnMemory) else self._attend(state, memory)
        steps: list[_Attended] = []
        hiddens: list[Tensor] = []
        # Unbound once: slicing the large tensor at every step costs a full-sized gradient a step.
        for token_gates in self.cell.token(embedded).unbind(1):
            attended = same or self._attend(state, memory)
            state = self._advance(token_gates, attended, state)
            steps.append(attended)
            hiddens.append(state.hidden)
        contexts = [attended.context for attended in steps if attended.context is not None]
        features = self._read_out(torch.stack(hiddens, 1), torch.stack(contexts, 1) if contexts else None, embedded)
        return features, torch.stack([attended.attention for attended in steps], 1)

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * self.config.embedding**0.5)

    def _remember(self, source: Tensor, source_length: Tensor, values: Tensor, last: RecurrentState) -> Memory:
        """Return what the decoder keeps of the source."""
        if self.config.context == "none":
            return NoMemory()
        if self.attention is None:
            return FixedMemory(self.dropout(torch.cat((last.hidden[0], last.hidden[1]), dim=1)))
        values = self.dropout(values)
        positions = torch.arange(source.shape[1], device=source.device)
        mask = positions.unsqueeze(0) < source_length.unsqueeze(1)
        return RnnMemory(self.attention.project(values), values, mask)

    def _begin(self, last: RecurrentState) -> RecurrentState:
        """Return s_0; only what the unit keeps to itself may leave (-1, 1)."""
        read = [part[direction] for part in last for direction in self._directions]
        made = self.bridge(read[0] if len(read) == 1 else torch.cat(read, dim=1))
        if isinstance(last, RnnState):
            return RnnState(torch.tanh(made))
        hidden, cell = made.chunk(2, dim=1)
        return LstmState(torch.tanh(hidden), cell)

    def _attend(self, state: RecurrentState, memory: Memory) -> _Attended:
        if isinstance(memory, RnnMemory):
            assert self.attention is not None
            context, weights = self.attention(state.hidden, *memory)
            attention = weights.unsqueeze(1).unsqueeze(1)
        else:
            context = memory.context if isinstance(memory, FixedMemory) else None
            attention = state.hidden.new_zeros((state.hidden.shape[0], 0, 0, 0))
        return _Attended(context, None if context is None else self.cell.put_in(context), attention)

    def _advance(self, token_gates: Tensor, attended: _Attended, state: RecurrentState) -> RecurrentState:
        return self.cell(token_gates if attended.gates is None else token_gates + attended.gates, state)

    def _read_out(self, hidden: Tensor, context: Tensor | None, embedded: Tensor) -> Tensor:
        """Return features for `output`; the tensors have the same axes before the last."""
        parts = (hidden, embedded) if context is None else (hidden, context, embedded)
        features = self.readout(torch.cat(parts, dim=-1))
        return self.dropout(torch.tanh(features) if self.config.readout == "mlp" else features)

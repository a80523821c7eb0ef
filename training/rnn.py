"""Translates with a recurrent encoder-decoder that searches its memory: Bahdanau, Cho and Bengio 2015.

It does not know words, only ids, nor how the best sentence is searched for.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from training.attention import AdditiveAttention
from training.dropout import PooledDropout


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnConfig:
    """Sizes of the network; a ValueError names the values that cannot be."""

    vocabulary: int  # entries, shared by source and target
    output: int  # entries that can be predicted: the first ones
    embedding: int = 256  # also the size of the readout, which is compared with the embeddings
    encoder: int = 256  # per direction
    decoder: int = 512
    attention: int = 256
    dropout: float = 0.2

    def __post_init__(self) -> None:
        for name in ("vocabulary", "output", "embedding", "encoder", "decoder", "attention"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but a size is at least 1.")
        if self.output > self.vocabulary:
            raise ValueError(f"output is {self.output}, more than the vocabulary of {self.vocabulary} has.")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout is {self.dropout}, but a probability of dropping is at least 0 and less than 1.")


class RnnMemory(NamedTuple):
    """What the decoder attends to."""

    keys: Tensor  # [batch, source, attention]
    values: Tensor  # [batch, source, 2 * encoder]
    mask: Tensor  # bool [batch, source], True where the source is real


class RnnState(NamedTuple):
    """What the decoder remembers."""

    hidden: Tensor  # [batch, decoder]


class BidirectionalGru(nn.Module):
    """Reads each row to its real length in both directions, whatever the padding."""

    # Made by prepare_for_export alone.
    onnx_input: Tensor
    onnx_recurrent: Tensor
    onnx_bias: Tensor

    def __init__(self, *, input_dim: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.gru = nn.GRU(input_dim, dim, batch_first=True, bidirectional=True)

    def forward(self, inputs: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """Read inputs [batch, source, input_dim] of length int64 [batch], each at least 1.

        Returns states [batch, source, 2 * dim], zeros on padding, and last states [direction, batch, dim]: forward's
        at the row's last real position, backward's at its first.
        """
        if torch.onnx.is_in_onnx_export():
            return self._onnx_forward(inputs, length)
        packed = pack_padded_sequence(inputs, length.cpu(), batch_first=True, enforce_sorted=False)
        packed_states, last = self.gru(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=inputs.shape[1])
        return states, last

    def prepare_for_export(self) -> None:
        """Lay the weights out for ONNX's GRU, beside those that are trained; call it before tracing.

        ONNX orders gates as update, reset, new where torch has reset, update, new. Done in the traced code this would
        leave chains of slices in the graph.
        """
        weights = dict(self.gru.named_parameters())

        def laid_out(name: str) -> Tensor:
            directions = [weights[name + suffix].detach() for suffix in ("_l0", "_l0_reverse")]
            gates = [direction.chunk(3) for direction in directions]
            return torch.stack([torch.cat((update, reset, new)) for reset, update, new in gates])

        self.register_buffer("onnx_input", laid_out("weight_ih"), persistent=False)
        self.register_buffer("onnx_recurrent", laid_out("weight_hh"), persistent=False)
        biases = torch.cat((laid_out("bias_ih"), laid_out("bias_hh")), dim=1)
        self.register_buffer("onnx_bias", biases, persistent=False)

    def _onnx_forward(self, inputs: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        # Tracing torch's GRU either freezes the length or fails on packing; the operator itself takes lengths.
        steps = inputs.transpose(0, 1)
        source, batch = steps.shape[:2]
        states, last = torch.onnx.ops.symbolic_multi_out(
            "GRU",
            (steps, self.onnx_input, self.onnx_recurrent, self.onnx_bias, length.to(torch.int32)),
            {"hidden_size": self.dim, "direction": "bidirectional", "linear_before_reset": 1},
            dtypes=(inputs.dtype, inputs.dtype),
            shapes=((source, 2, batch, self.dim), (2, batch, self.dim)),
        )
        return states.permute(2, 0, 1, 3).reshape(batch, source, 2 * self.dim), last


class GruCell(nn.Module):
    """One step of a gated recurrent unit over a token and a context: Bahdanau et al. 2015, appendix A.1.1.

    The token's part of the gates does not depend on the step before, so that it can be made for all steps at once.
    """

    def __init__(self, *, token_dim: int, context_dim: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.token = nn.Linear(token_dim, 3 * dim)
        self.context = nn.Linear(context_dim, 3 * dim, bias=False)
        self.recurrent = nn.Linear(dim, 3 * dim)

    def forward(self, token_gates: Tensor, context: Tensor, hidden: Tensor) -> Tensor:
        """Return the next hidden [batch, dim].

        token_gates [batch, 3 * dim] is `token` of the token, context [batch, context_dim], hidden [batch, dim].
        """
        sizes = (2 * self.dim, self.dim)
        input_gates, input_new = (token_gates + self.context(context)).split(sizes, dim=1)
        hidden_gates, hidden_new = self.recurrent(hidden).split(sizes, dim=1)
        reset, update = torch.sigmoid(input_gates + hidden_gates).chunk(2, dim=1)
        new = torch.tanh(input_new + reset * hidden_new)
        return new + update * (hidden - new)


class TiedOutput(nn.Module):
    """Scores each of the first `size` entries by its embedding's product with the features, plus a bias.

    Press and Wolf 2017. Entries that only the source language uses come last in the vocabulary and are not scored.
    """

    # Made by prepare_for_export alone.
    onnx_weight: Tensor

    def __init__(self, embedding: nn.Embedding, size: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.bias = nn.Parameter(torch.zeros(size))

    @property
    def weight(self) -> Tensor:
        """The embeddings of the entries that are scored [size, dim]."""
        return self.embedding.weight[: self.bias.shape[0]]

    def forward(self, features: Tensor) -> Tensor:
        """Turn features [..., dim] into unnormalised scores [..., size]."""
        weight = self.onnx_weight if torch.onnx.is_in_onnx_export() else self.weight
        return nn.functional.linear(features, weight, self.bias)

    def prepare_for_export(self) -> None:
        """Cut the weight out of the embeddings, so that a graph holds it as one constant; call it before tracing."""
        self.register_buffer("onnx_weight", self.weight.detach().clone(), persistent=False)


class Rnn(nn.Module):
    """Bidirectional GRU encoder, GRU decoder with additive attention, one embedding for source, target and output.

    e = f_att(s_{t-1}, h), a = softmax(e), c_t = sum_i a_i h_i, s_t = GRU([y_{t-1}; c_t], s_{t-1}); the readout of
    s_t, c_t and y_{t-1} is scored against the embeddings (section 3.1 and appendix A.2.2, with tanh for maxout).
    """

    def __init__(self, config: RnnConfig) -> None:
        super().__init__()
        self.config = config
        memory = 2 * config.encoder
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        self.encoder = BidirectionalGru(input_dim=config.embedding, dim=config.encoder)
        self.bridge = nn.Linear(config.encoder, config.decoder)
        self.attention = AdditiveAttention(query_dim=config.decoder, memory_dim=memory, dim=config.attention)
        self.cell = GruCell(token_dim=config.embedding, context_dim=memory, dim=config.decoder)
        self.readout = nn.Linear(config.decoder + memory + config.embedding, config.embedding)
        self.output = TiedOutput(self.embedding, config.output)
        self.dropout = PooledDropout(config.dropout)
        # Read back multiplied by sqrt(dim), so that inputs have unit variance and first scores are small.
        nn.init.normal_(self.embedding.weight, std=config.embedding**-0.5)
        for name, parameter in self.named_parameters():
            if name == "cell.recurrent.weight" or name.startswith("encoder.gru.weight_hh"):
                for gate in parameter.detach().chunk(3):
                    nn.init.orthogonal_(gate)

    def prepare_for_export(self) -> None:
        """Lay weights out for ONNX; call it once before tracing `encode` or `step`, and again after any change."""
        self.encoder.prepare_for_export()
        self.output.prepare_for_export()

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[RnnMemory, RnnState]:
        """Read source int64 [batch, source], of which the first source_length int64 [batch], at least 1, are real."""
        values, last = self.encoder(self._embed(source), source_length)
        values = self.dropout(values)
        positions = torch.arange(source.shape[1], device=source.device)
        mask = positions.unsqueeze(0) < source_length.unsqueeze(1)
        memory = RnnMemory(self.attention.project(values), values, mask)
        return memory, RnnState(torch.tanh(self.bridge(last[1])))

    def step(self, token: Tensor, state: RnnState, memory: RnnMemory) -> tuple[Tensor, RnnState, Tensor]:
        """Feed token int64 [batch].

        Returns log-probabilities [batch, output], the next state and attention [batch, layer 1, head 1, source].
        """
        embedded = self._embed(token)
        context, weights = self.attention(state.hidden, *memory)
        hidden = self.cell(self.cell.token(embedded), context, state.hidden)
        scores = torch.log_softmax(self.output(self._read_out(hidden, context, embedded)), dim=1)
        return scores, RnnState(hidden), weights.unsqueeze(1).unsqueeze(1)

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed target_in int64 [batch, target] at once.

        Returns features [batch, target, embedding] for `output` and attention [batch, target, layer 1, head 1, source].
        """
        memory, state = self.encode(source, source_length)
        embedded = self._embed(target_in)
        hidden = state.hidden
        contexts: list[Tensor] = []
        hiddens: list[Tensor] = []
        attention: list[Tensor] = []
        # Unbound once: slicing the large tensor at every step costs a full-sized gradient a step.
        for token_gates in self.cell.token(embedded).unbind(1):
            context, weights = self.attention(hidden, *memory)
            hidden = self.cell(token_gates, context, hidden)
            contexts.append(context)
            hiddens.append(hidden)
            attention.append(weights)
        features = self._read_out(torch.stack(hiddens, 1), torch.stack(contexts, 1), embedded)
        return features, torch.stack(attention, 1).unsqueeze(2).unsqueeze(2)

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * self.config.embedding**0.5)

    def _read_out(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.readout(torch.cat((hidden, context, embedded), dim=-1))))

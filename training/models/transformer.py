"""Translates with a Transformer whose KV cache is explicit: Vaswani et al. 2017."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.training.models.attention import MultiHeadAttention, causal_mask
from regard.training.models.dropout import PooledDropout
from regard.training.models.output_layer import TiedOutput
from regard.training.models.positions import COMBINATIONS, KINDS, Combination, Kind, Positions

Norm = Literal["pre", "post"]
NORMS = ("pre", "post")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """Sizes of the network; a ValueError names the values that cannot be."""

    vocabulary: int  # entries, shared by source and target
    output: int  # entries that can be predicted: the first ones
    dim: int = 256
    heads: int = 4
    feed_forward: int = 1024  # 0 for layers that only attend
    encoder_layers: int = 4
    decoder_layers: int = 2
    norm: Norm = "pre"  # before each sublayer (Xiong et al. 2020) or after each sum, as at first
    positions: Kind = "sinusoidal"
    combination: Combination = "add"  # of embeddings and positions
    longest: int = 512  # positions that are told apart
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("vocabulary", "output", "dim", "heads", "encoder_layers", "decoder_layers", "longest"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but it is at least 1.")
        if self.dim % self.heads:
            raise ValueError(f"dim is {self.dim} and heads {self.heads}, but dim has to be a multiple of heads.")
        if self.feed_forward < 0:
            raise ValueError(f"feed_forward is {self.feed_forward}, but a size is at least 0.")
        if self.output > self.vocabulary:
            raise ValueError(f"output is {self.output}, more than the vocabulary of {self.vocabulary} has.")
        choices = (("norm", NORMS), ("positions", KINDS), ("combination", COMBINATIONS))
        for name, known in choices:
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, but it is one of {', '.join(known)}.")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout is {self.dropout}, but a probability of dropping is at least 0 and less than 1.")


class TransformerMemory(NamedTuple):
    """What the decoder attends to: keys and values of the source for every decoder layer."""

    keys: Tensor  # [batch, layer, head, source, dim / head]
    values: Tensor  # [batch, layer, head, source, dim / head]
    mask: Tensor  # bool [batch, source], True where the source is real


class TransformerState(NamedTuple):
    """What the decoder has said so far, as keys and values of every layer."""

    keys: Tensor  # [batch, layer, head, past, dim / head]
    values: Tensor  # [batch, layer, head, past, dim / head]
    position: Tensor  # int64 [batch], tokens fed so far


class Sublayer(nn.Module):
    """The sum around attention and feed-forward network, with its norm before (pre) or after it (post)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = PooledDropout(config.dropout)

    def before(self, states: Tensor) -> Tensor:
        """Return what the sublayer is given of states [batch, length, dim]."""
        return self.norm(states) if self.pre else states

    def after(self, states: Tensor, update: Tensor) -> Tensor:
        """Return states [batch, length, dim] with what the sublayer made of them."""
        states = states + self.dropout(update)
        return states if self.pre else self.norm(states)


class FeedForward(nn.Module):
    """W_2 relu(W_1 x), for every position alone: section 3.3. Nothing at all where its size is 0."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.size = config.feed_forward
        if self.size:
            self.around = Sublayer(config)
            self.expand = nn.Linear(config.dim, config.feed_forward)
            self.contract = nn.Linear(config.feed_forward, config.dim)

    def forward(self, states: Tensor) -> Tensor:
        """Return the next states [batch, length, dim]."""
        if not self.size:
            return states
        return self.around.after(states, self.contract(torch.relu(self.expand(self.around.before(states)))))


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.around = Sublayer(config)
        self.attention = MultiHeadAttention(dim=config.dim, heads=config.heads)
        self.feed_forward = FeedForward(config)

    def forward(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next states [batch, source, dim] and weights [batch, head, query, source]."""
        inputs = self.around.before(states)
        context, weights = self.attention(inputs, *self.attention.project(inputs), mask)
        return self.feed_forward(self.around.after(states, context)), weights


class DecoderLayer(nn.Module):
    """Masked self-attention over what was said, attention over the source, then the feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.around_self = Sublayer(config)
        self.self_attention = MultiHeadAttention(dim=config.dim, heads=config.heads)
        self.around_cross = Sublayer(config)
        self.cross_attention = MultiHeadAttention(dim=config.dim, heads=config.heads)
        self.feed_forward = FeedForward(config)

    def forward(
        self,
        states: Tensor,
        past: tuple[Tensor, Tensor],
        mask: Tensor | None,
        memory: tuple[Tensor, Tensor, Tensor | None],
    ) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
        """Go on from the keys and values of the past, each [batch, head, past, dim / head].

        states [batch, target, dim], mask bool [target, past + target], memory keys and values
        [batch, head, source, dim / head] and mask bool [batch, 1, 1, source], None where all is real -> the next
        states, keys and values with these targets, cross-attention [batch, head, target, source].
        """
        inputs = self.around_self.before(states)
        new_keys, new_values = self.self_attention.project(inputs)
        keys, values = torch.cat((past[0], new_keys), dim=2), torch.cat((past[1], new_values), dim=2)
        context, _ = self.self_attention(inputs, keys, values, mask)
        states = self.around_self.after(states, context)
        context, weights = self.cross_attention(self.around_cross.before(states), *memory)
        return self.feed_forward(self.around_cross.after(states, context)), (keys, values), weights


def go_through(
    layers: Sequence[DecoderLayer],
    states: Tensor,
    state: TransformerState,
    mask: Tensor | None,
    memory: tuple[Tensor, Tensor, Tensor | None],
) -> tuple[Tensor, TransformerState, Tensor]:
    """Take states [batch, target, dim] through the layers of a decoder.

    mask bool [target, past + target], memory keys and values [batch, layer, head, source, dim / head] and mask bool
    [batch, 1, 1, source], None where all is real -> the next states, the next decoder state, attention
    [batch, target, layer, head, source].
    """
    keys: list[Tensor] = []
    values: list[Tensor] = []
    attention: list[Tensor] = []
    for index, layer in enumerate(layers):
        past = state.keys[:, index], state.values[:, index]
        states, (layer_keys, layer_values), weights = layer(
            states, past, mask, (memory[0][:, index], memory[1][:, index], memory[2])
        )
        keys.append(layer_keys)
        values.append(layer_values)
        attention.append(weights)
    following = TransformerState(torch.stack(keys, 1), torch.stack(values, 1), state.position + states.shape[1])
    # [batch, layer, head, target, source] -> [batch, target, layer, head, source]
    return states, following, torch.stack(attention, 1).movedim(3, 1)


class Transformer(nn.Module):
    """Encoder and decoder of self-attention, one embedding for source, target and output."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.positions = Positions(
            dim=config.dim, kind=config.positions, combination=config.combination, longest=config.longest
        )
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # Sums of pre-norm layers have no norm after the last one; post-norm layers end in theirs.
        self.encoder_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.output = TiedOutput(self.embedding, config.output)
        self.dropout = PooledDropout(config.dropout)
        for name, parameter in self.named_parameters():
            # Codes of positions are added to embeddings and multiply nothing.
            if parameter.dim() > 1 and name != "positions.learned":
                nn.init.xavier_uniform_(parameter)
        # Read back multiplied by sqrt(dim), so that inputs have unit variance and first logits are small.
        nn.init.normal_(self.embedding.weight, std=config.dim**-0.5)

    @property
    def attention_axes(self) -> tuple[int, int]:
        """Layers and heads of the decoder's attention to the source."""
        return self.config.decoder_layers, self.config.heads

    def prepare_for_export(self) -> None:
        """Lay weights out for ONNX; call it once before tracing `encode` or `step`, and again after any change."""
        self.output.prepare_for_export()

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[TransformerMemory, TransformerState]:
        """Read source int64 [batch, source], of which the first source_length int64 [batch], at least 1, are real."""
        positions = torch.arange(source.shape[1], device=source.device)
        mask = positions.unsqueeze(0) < source_length.unsqueeze(1)
        states = self._embed(source, positions)
        for layer in self.encoder:
            states, _ = layer(states, mask[:, None, None])
        states = self.encoder_norm(states)
        keys, values = zip(*(layer.cross_attention.project(states) for layer in self._decoder_layers()), strict=True)
        memory = TransformerMemory(torch.stack(keys, dim=1), torch.stack(values, dim=1), mask)
        nothing = memory.keys[:, :, :, :0]
        return memory, TransformerState(nothing, nothing, torch.zeros_like(source_length))

    def step(
        self, token: Tensor, state: TransformerState, memory: TransformerMemory
    ) -> tuple[Tensor, TransformerState, Tensor]:
        """Feed token int64 [batch].

        Returns log-probs [batch, output], the next state and attention [batch, layer, head, source].
        """
        features, following, attention = self._decode(token.unsqueeze(1), state, memory, None)
        log_probs = torch.log_softmax(self.output(features.squeeze(1)), dim=1)
        return log_probs, following, attention.squeeze(1)

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed target_in int64 [batch, target] at once.

        Returns features [batch, target, dim] for `output` and attention [batch, target, layer, head, source].
        """
        memory, state = self.encode(source, source_length)
        mask = causal_mask(target_in.shape[1], target_in.device)
        features, _, attention = self._decode(target_in, state, memory, mask)
        return features, attention

    def _decode(
        self, tokens: Tensor, state: TransformerState, memory: TransformerMemory, mask: Tensor | None
    ) -> tuple[Tensor, TransformerState, Tensor]:
        length = tokens.shape[1]
        positions = state.position.unsqueeze(1) + torch.arange(length, device=tokens.device)
        states, following, attention = go_through(
            self._decoder_layers(),
            self._embed(tokens, positions),
            state,
            mask,
            (memory.keys, memory.values, memory.mask[:, None, None]),
        )
        return self.decoder_norm(states), following, attention

    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.positions(self.embedding(tokens) * self.config.dim**0.5, positions))

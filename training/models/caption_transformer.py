"""Decodes captions with a Transformer decoder that attends to the cells of a feature map: Vaswani et al. 2017."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.training.models.attention import causal_mask
from regard.training.models.dropout import PooledDropout
from regard.training.models.output_layer import TiedOutput
from regard.training.models.positions import Positions
from regard.training.models.transformer import DecoderLayer, TransformerConfig, TransformerState, go_through


class GridMemory(NamedTuple):
    """What the decoder attends to: keys and values of the map for every layer; all of it is real."""

    keys: Tensor  # [batch, layer, head, source, dim / head]
    values: Tensor  # [batch, layer, head, source, dim / head]


class TransformerDecoder(nn.Module):
    """Layers of masked self-attention, attention over the map and a feed-forward network, norms before each."""

    def __init__(self, config: TransformerConfig, *, values: int) -> None:
        """Make a decoder for maps whose cells have so many values; encoder_layers are not used."""
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.positions = Positions(dim=config.dim, kind=config.positions, longest=config.longest)
        self.read_in = nn.Linear(values, config.dim)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.decoder_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.output = TiedOutput(self.embedding, config.output)
        self.dropout = PooledDropout(config.dropout)
        for parameter in (*self.read_in.parameters(), *self.decoder.parameters()):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        # Read back multiplied by sqrt(dim), so that inputs have unit variance and first logits are small.
        nn.init.normal_(self.embedding.weight, std=config.dim**-0.5)

    def begin(self, values: Tensor) -> tuple[GridMemory, TransformerState]:
        """Return memory and first state of maps [batch, source, values]."""
        states = self.dropout(self.read_in(values))
        keys, found = zip(*(layer.cross_attention.project(states) for layer in self._layers()), strict=True)
        memory = GridMemory(torch.stack(keys, dim=1), torch.stack(found, dim=1))
        nothing = memory.keys[:, :, :, :0]
        # Not len(values), which a graph would freeze.
        position = torch.zeros(values.shape[0], dtype=torch.long, device=values.device)
        return memory, TransformerState(nothing, nothing, position)

    def step(
        self, token: Tensor, state: TransformerState, memory: GridMemory
    ) -> tuple[Tensor, TransformerState, Tensor]:
        """Feed token int64 [batch].

        Returns log-probs [batch, output], the next state and attention [batch, layer, head, source].
        """
        features, following, attention = self._decode(token.unsqueeze(1), state, memory, None)
        log_probs = torch.log_softmax(self.output(features.squeeze(1)), dim=1)
        return log_probs, following, attention.squeeze(1)

    def follow(self, state: TransformerState, memory: GridMemory, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed target_in int64 [row, target], as many rows of each picture, one after the other.

        Returns features [row, target, dim] for `output` and attention [row, target, layer, head, source].
        """
        count = len(target_in) // len(memory.keys)
        memory = GridMemory(*(part.repeat_interleave(count, dim=0) for part in memory))
        state = TransformerState(*(part.repeat_interleave(count, dim=0) for part in state))
        mask = causal_mask(target_in.shape[1], target_in.device)
        features, _, attention = self._decode(target_in, state, memory, mask)
        return features, attention

    def _decode(
        self, tokens: Tensor, state: TransformerState, memory: GridMemory, mask: Tensor | None
    ) -> tuple[Tensor, TransformerState, Tensor]:
        length = tokens.shape[1]
        positions = state.position.unsqueeze(1) + torch.arange(length, device=tokens.device)
        embedded = self.embedding(tokens) * self.config.dim**0.5
        states = self.dropout(self.positions(embedded, positions))
        # No mask of the source: all cells are real.
        states, following, attention = go_through(
            self._layers(), states, state, mask, (memory.keys, memory.values, None)
        )
        return self.decoder_norm(states), following, attention

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

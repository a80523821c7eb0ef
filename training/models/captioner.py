"""Describes pictures: a feature map is read once, then a decoder looks at its cells while it writes.

Xu et al. 2015, "Show, Attend and Tell". It does not know words, only ids, nor how the best caption is searched for.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from regard.training.models.caption_decoder import RecurrentDecoder
from regard.training.models.caption_transformer import TransformerDecoder
from regard.training.models.dropout import PooledDropout
from regard.training.models.image_attention import ImageSelfAttention
from regard.training.models.protocol import Output
from regard.training.models.transformer import TransformerConfig
from regard.training.models.vision import BackboneConfig, make_backbone

DecoderName: TypeAlias = Literal["gru", "lstm", "transformer"]

_PLACE_DEVIATION = 1.0  # as that of what it is added to
_CHOICES = {"decoder": ("gru", "lstm", "transformer")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionerConfig:
    """Sizes and kinds of the network's parts; a ValueError names the values that cannot be."""

    vocabulary: int
    output: int  # entries that can be predicted: the first ones
    backbone: str = "efficientnet_lite0"
    stage: str = "head"  # of the backbone, where its map is taken from
    height: int = 224  # pixels of the pictures
    width: int = 224
    self_attention: bool = False  # whether the cells of the map look at each other first
    places: bool = False  # whether cells are told where they lie; padded convolutions let them know a little anyway
    decoder: DecoderName = "lstm"
    values: int = 512  # numbers that a cell is summed up in
    embedding: int = 256  # also the size of what is compared with the embeddings
    hidden: int = 512  # of a recurrent decoder's state
    attention: int = 256  # of a recurrent decoder's keys
    layers: int = 2  # of a Transformer decoder, as are the next two
    heads: int = 4
    feed_forward: int = 1024
    dropout: float = 0.3

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "output", "height", "width", "values", "embedding", "hidden", "attention")
        for name in (*sizes, "layers", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but a size is at least 1.")
        if self.output > self.vocabulary:
            raise ValueError(f"output is {self.output}, more than the vocabulary of {self.vocabulary} has.")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout is {self.dropout}, but a probability of dropping is at least 0 and less than 1.")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}, but it is one of {', '.join(choices)}.")


class MapCaptioner(nn.Module):
    """What is learnt from captions: feature maps to captions. It meets SequenceModel, with maps for a source."""

    def __init__(self, config: CaptionerConfig, *, rows: int, columns: int, channels: int) -> None:
        super().__init__()
        self.config = config
        self._shape = (rows, columns)
        self.self_attention = ImageSelfAttention(channels=channels) if config.self_attention else None
        self.adapter = nn.Linear(channels, config.values)
        self.place = nn.Parameter(torch.zeros(rows * columns, config.values)) if config.places else None
        self.norm = nn.LayerNorm(config.values)
        self.dropout = PooledDropout(config.dropout)
        self.decoder = _make_decoder(config)
        if self.place is not None:
            nn.init.normal_(self.place, std=_PLACE_DEVIATION)

    @property
    def output(self) -> Output:
        """The layer that turns the features of `forward` into logits."""
        return self.decoder.output

    @property
    def attention_axes(self) -> tuple[int, int]:
        """Layers and heads of the decoder's attention."""
        return (self.config.layers, self.config.heads) if self.config.decoder == "transformer" else (1, 1)

    def prepare_for_export(self) -> None:
        """Lay weights out for ONNX; call it once before tracing `encode` or `step`, and again after any change."""
        self.decoder.output.prepare_for_export()

    def encode(self, source: Tensor, source_length: Tensor | None = None) -> tuple[Any, Any]:
        """Read maps float32 [batch, rows * columns, channels]; all of a map is real, whatever source_length says."""
        memory, state, _ = self.read(source)
        return memory, state

    def read(self, maps: Tensor) -> tuple[Any, Any, Tensor | None]:
        """Return memory, state and, of a model with self-attention, its weights.

        maps [batch, rows * columns, channels] -> weights [batch, layer 1, head 1, query, source].
        """
        weights = None
        if self.self_attention is not None:
            grid = torch.unflatten(maps.transpose(1, 2), 2, self._shape)
            attended, found = self.self_attention(grid)
            maps, weights = attended.flatten(2).transpose(1, 2), found.unsqueeze(1)
        values = self.norm(self.adapter(maps))
        values = self.dropout(torch.relu(values if self.place is None else values + self.place))
        memory, state = self.decoder.begin(values)
        return memory, state, weights

    def step(self, token: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor]:
        """Feed token int64 [batch].

        Returns log-probs [batch, output], the next state and attention [batch, layer, head, source].
        """
        return self.decoder.step(token, state, memory)

    def forward(self, source: Tensor, source_length: Tensor | None, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed target_in int64 [row, target] of maps [picture, rows * columns, channels].

        Every picture has as many rows, which follow each other. Returns features [row, target, dim] for `output` and
        attention [row, target, layer, head, source].
        """
        memory, state = self.encode(source, source_length)
        return self.decoder.follow(state, memory, target_in)


class Captioner(nn.Module):
    """A backbone and what describes its maps. It meets SequenceModel, with pixels for a source."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = make_backbone(
            BackboneConfig(name=config.backbone, stage=config.stage, height=config.height, width=config.width)
        )
        # Checkpoints name its weights by this attribute.
        self.describer = MapCaptioner(
            config, rows=self.backbone.rows, columns=self.backbone.columns, channels=self.backbone.channels
        )

    @property
    def output(self) -> Output:
        """The layer that turns the features of `forward` into logits."""
        return self.describer.output

    @property
    def attention_axes(self) -> tuple[int, int]:
        """Layers and heads of the decoder's attention."""
        return self.describer.attention_axes

    def prepare_for_export(self) -> None:
        """Lay weights out for ONNX; call it once before tracing `encode` or `step`, and again after any change."""
        self.describer.prepare_for_export()

    def encode(self, source: Tensor, source_length: Tensor | None = None) -> tuple[Any, Any]:
        """Read pixels uint8 [batch, height, width, 3], whatever source_length says."""
        return self.describer.encode(self.backbone(source))

    def read(self, pixels: Tensor) -> tuple[Any, Any, Tensor | None]:
        """Return memory, state and, of a model with self-attention, its weights [batch, layer, head, query, source]."""
        return self.describer.read(self.backbone(pixels))

    def step(self, token: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor]:
        """Feed token int64 [batch].

        Returns log-probs [batch, output], the next state and attention [batch, layer, head, source].
        """
        return self.describer.step(token, state, memory)

    def forward(self, source: Tensor, source_length: Tensor | None, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed target_in int64 [row, target] of pixels [picture, height, width, 3], as `MapCaptioner` does."""
        return self.describer(self.backbone(source), source_length, target_in)


def _make_decoder(config: CaptionerConfig) -> RecurrentDecoder | TransformerDecoder:
    if config.decoder == "transformer":
        sizes = TransformerConfig(
            vocabulary=config.vocabulary,
            output=config.output,
            dim=config.embedding,
            heads=config.heads,
            feed_forward=config.feed_forward,
            decoder_layers=config.layers,
            dropout=config.dropout,
        )
        return TransformerDecoder(sizes, values=config.values)
    return RecurrentDecoder(
        cell=config.decoder,
        vocabulary=config.vocabulary,
        output=config.output,
        values=config.values,
        embedding=config.embedding,
        hidden=config.hidden,
        attention=config.attention,
        dropout=config.dropout,
    )

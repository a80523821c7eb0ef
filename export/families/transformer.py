"""Shows a Transformer to the exporter as two graphs whose cache of keys and values is a buffer with room to spare.

The layers, their weights and their order are those of `regard.training.models.transformer`; only how attention reaches
its cache differs: a row's position says where its next entry goes, so that rows of any age share a batch. It does not
know what runs the graphs, nor how they are stored.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from regard.contract.model_ports import SOURCE_AXIS, ModelPorts, Part, PictureAxes, name_ports
from regard.export.families.graphs import TraceableModel, sources_of_two_sizes
from regard.training.models.attention import MultiHeadAttention, masked_softmax
from regard.training.models.caption_transformer import TransformerDecoder
from regard.training.models.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerConfig

Body = Literal["plain", "shared-buffer"]

CONTRIB_ATTENTION = "com.microsoft::GroupQueryAttention"
PARTS = 2  # keys and values


class TransformerEncodeGraph(nn.Module):
    """source, source_length -> keys and values of the source for every decoder layer, and the bias of its padding.

    Activations are [token, dim], one row for each real token of the batch, so that no product is spent on padding;
    only attention sees them as [batch, source].
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.packed = nn.ModuleList(
            _side_by_side(_scale_query(layer.attention), layer.attention.key_value) for layer in _encoder(model)
        )
        self.memory = _side_by_side(*(layer.cross_attention.key_value for layer in _decoder(model)))

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        source, source_length = inputs
        model = self.model
        positions = torch.arange(source.shape[1]).unsqueeze(0)
        mask = positions < source_length.unsqueeze(1)
        packing = _Packing(mask, model.config.heads)
        positions = positions.expand_as(source).reshape(-1).index_select(0, packing.places)
        tokens = source.reshape(-1).index_select(0, packing.places)
        states = model.positions(model.embedding(tokens) * model.config.dim**0.5, positions)
        unseen = _bias(mask)
        for layer, packed in zip(_encoder(model), self.packed, strict=True):
            states = _encode_layer(layer, packed, states, unseen, packing)
        memory = self.memory(model.encoder_norm(states))
        count = PARTS * model.config.decoder_layers
        parts: list[Tensor] = []
        for part in range(0, count, PARTS):
            # Keys lie the other way round, as the product of a step with them reads them.
            parts += (packing.spread(memory, part, count).transpose(2, 3), packing.spread(memory, part + 1, count))
        return (*parts, unseen)


class TransformerStepGraph(nn.Module):
    """token, buffers of every layer, position, memory -> scores, next buffers, next position, attention.

    The last of memory is what energies of padding get added, where there is any: of a picture all is real. It is made
    once, by encode, and not from a mask in every step.
    body chooses how a buffer is read and written: "plain" makes a new one by selection, for any runtime;
    "shared-buffer" leaves both to ONNX Runtime's GroupQueryAttention, which works in place where input and output are
    one memory, and reads no further than a row's position. Activations are [batch, dim].
    """

    def __init__(self, model: Transformer | TransformerDecoder, body: Body) -> None:
        super().__init__()
        self.model = model
        self.body: Body = body
        # One product and not three: the packed form that GroupQueryAttention takes.
        self.packed = nn.ModuleList(
            _side_by_side(layer.self_attention.query, layer.self_attention.key_value) for layer in _decoder(model)
        )
        self.queries = nn.ModuleList(_scale_query(layer.cross_attention) for layer in _decoder(model))

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        model = self.model
        buffers = PARTS * model.config.decoder_layers
        token, *rest = inputs
        past, position, memory = rest[:buffers], rest[buffers], rest[buffers + 1 :]
        # No step is fed what cannot be predicted, so that embedding and output can share one table.
        embedded = nn.functional.embedding(token, model.output.onnx_weight)
        states = model.positions(embedded * model.config.dim**0.5, position)
        following: list[Tensor] = []
        attention: list[Tensor] = []
        for index, layer in enumerate(_decoder(model)):
            keys, values = past[PARTS * index : PARTS * index + PARTS]
            packed = self.packed[index](layer.around_self.before(states))
            attend = _attend_plainly if self.body == "plain" else _attend_in_place
            context, keys, values = attend(packed, keys, values, position, model.config.heads)
            following += (keys, values)
            states = layer.around_self.after(states, layer.self_attention.output(context))
            queries = self.queries[index](layer.around_cross.before(states))
            queries = queries.reshape(-1, model.config.heads, 1, queries.shape[1] // model.config.heads)
            energy = torch.matmul(queries, memory[PARTS * index])
            weights = torch.softmax(energy + memory[buffers] if len(memory) > buffers else energy, dim=-1)
            context = torch.matmul(weights, memory[PARTS * index + 1]).flatten(1)
            states = layer.feed_forward(layer.around_cross.after(states, layer.cross_attention.output(context)))
            attention.append(weights)
        scores = torch.log_softmax(model.output(model.decoder_norm(states)), dim=1)
        # [row, layer * head, 1, source], one head behind the other.
        weights = torch.cat(attention, 1)
        shape = (token.shape[0], len(attention), model.config.heads, weights.shape[-1])
        return (scores, *following, position + 1, weights.reshape(shape))


def name_transformer_ports(config: TransformerConfig, pictures: PictureAxes | None = None) -> ModelPorts:
    """Return the ports of a model, or of a decoder over pictures, all of whose cells are real."""
    head = config.dim // config.heads
    layers = range(config.decoder_layers)
    pictures = pictures or {"pixels": None, "cells": None, "encoder_attention": None}
    source = pictures["cells"] or SOURCE_AXIS
    return name_ports(
        memory=[
            *(
                part
                for layer in layers
                for part in (
                    Part(f"keys_{layer}", "float32", ("batch", config.heads, head, source)),
                    Part(f"values_{layer}", "float32", ("batch", config.heads, source, head)),
                )
            ),
            *[Part("padding_bias", "float32", ("batch", 1, 1, "source"))] * (source == SOURCE_AXIS),
        ],
        state=[
            *(
                Part(f"{name}_{layer}", "float32", ("batch", config.heads, "target", head))
                for layer in layers
                for name in ("keys", "values")
            ),
            Part("position", "int64", ("batch",)),
        ],
        vocabulary=config.vocabulary,
        predictable=config.output,
        layers=config.decoder_layers,
        heads=config.heads,
        initial_state=(),
        **pictures,
    )


def open_transformer(model: Transformer, body: Body) -> TraceableModel:
    """Return a model's two graphs with their ports, and inputs of two sizes to trace them by."""
    config = model.config
    model = copy.deepcopy(model).eval()
    model.prepare_for_export()
    encode, step = TransformerEncodeGraph(model).eval(), TransformerStepGraph(model, body).eval()
    samples = sources_of_two_sizes(config.vocabulary)
    with torch.no_grad():
        step_samples = sample_steps(config, [encode(sample) for sample in samples])
    return TraceableModel(encode, step, name_transformer_ports(config), samples, step_samples)


def sample_steps(config: TransformerConfig, memories: Sequence[tuple[Tensor, ...]]) -> tuple[tuple[Tensor, ...], ...]:
    """Return inputs of a step for each of some memories, to trace it by; no two have buffers of one size."""
    return tuple(
        (
            torch.full((len(memory[0]),), 3),
            *_buffers(config.decoder_layers, len(memory[0]), config.heads, room, config.dim // config.heads),
            torch.arange(len(memory[0])) % room,
            *memory,
        )
        for room, memory in enumerate(memories, start=5)
    )


class _Packing:
    """Lays the real tokens of a padded batch one behind the other, and back for the heads of attention.

    Both ways what moves are rows of one head of one token, in one go.
    """

    def __init__(self, mask: Tensor, heads: int) -> None:
        """mask bool [batch, source]; every row has a real token, and the first ones are real."""
        self.heads = heads
        batch, length = mask.shape
        row, place = mask.nonzero().unbind(1)
        # Where the real tokens are [token], and which real token comes last at each position [batch, 1, source].
        self.places = row * length + place
        self.last = (torch.cumsum(mask.reshape(-1).to(torch.int64), 0) - 1).reshape(batch, 1, length)
        self.head = torch.arange(heads)
        # Where each head of a real token is among rows [batch, head, source].
        self.packed = ((row.unsqueeze(1) * heads + self.head) * length + place.unsqueeze(1)).reshape(-1)
        self.shape = (batch, heads, length)

    def spread(self, packed: Tensor, part: int, parts: int) -> Tensor:
        """Return one part of packed [token, part * dim] as [batch, head, source, dim / head].

        Padding repeats the token before it.
        """
        rows = packed.reshape(-1, packed.shape[1] // (parts * self.heads))
        index = self.last * (parts * self.heads) + (self.head + part * self.heads).reshape(1, -1, 1)
        return rows.index_select(0, index.reshape(-1)).reshape(*self.shape, -1)

    def pack(self, spread: Tensor) -> Tensor:
        """Return spread [batch, head, source, dim / head] as [token, dim]."""
        size = spread.shape[3]
        return spread.reshape(-1, size).index_select(0, self.packed).reshape(-1, self.heads * size)


def _encode_layer(layer: EncoderLayer, packed: nn.Module, states: Tensor, unseen: Tensor, packing: _Packing) -> Tensor:
    """Return the next states [token, dim]."""
    attention = layer.attention
    projected = packed(layer.around.before(states))
    queries, keys, values = (packing.spread(projected, part, PARTS + 1) for part in range(PARTS + 1))
    weights = torch.softmax(torch.matmul(queries, keys.transpose(2, 3)) + unseen, dim=-1)
    context = packing.pack(torch.matmul(weights, values))
    return layer.feed_forward(layer.around.after(states, attention.output(context)))


def _bias(mask: Tensor) -> Tensor:
    """Return what is added to energies so that softmax is exactly 0 where mask [batch, source] is False.

    [batch, 1, 1, source], made once for all layers and steps. The least number of float16, which every precision holds:
    -inf would make NaN of a row without a real position.
    """
    return torch.where(mask, 0.0, torch.finfo(torch.float16).min)[:, None, None]


def _one_query(projected: Tensor, heads: int) -> Tensor:
    """Turn [batch, dim] into scaled queries [batch, head, 1, dim / head]."""
    head = projected.shape[1] // heads
    return (projected * head**-0.5).reshape(-1, heads, 1, head)


def _attend_plainly(
    packed: Tensor, keys: Tensor, values: Tensor, position: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return context [batch, dim] and the buffers with the new entries.

    What stands beyond a row's position is chosen away and not multiplied by 0, so that not even NaN does harm.
    """
    query, key, value = packed.chunk(PARTS + 1, dim=1)
    head = query.shape[1] // heads
    places = torch.arange(keys.shape[2])
    new = (places == position[:, None])[:, None, :, None]
    seen = (places <= position[:, None])[:, None, :]
    keys = torch.where(new, key.reshape(-1, heads, 1, head), keys)
    values = torch.where(new, value.reshape(-1, heads, 1, head), values)
    weights = masked_softmax(torch.matmul(_one_query(query, heads), keys.transpose(2, 3)), seen[:, :, None])
    context = torch.matmul(weights, torch.where(seen[..., None], values, 0.0))
    return context.flatten(1), keys, values


def _attend_in_place(
    packed: Tensor, keys: Tensor, values: Tensor, position: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same as `_attend_plainly` by ONNX Runtime's operator, which torch cannot run."""
    seen = position.to(torch.int32)
    context, keys, values = torch.onnx.ops.symbolic_multi_out(
        CONTRIB_ATTENTION,
        (packed.unsqueeze(1), None, None, keys, values, seen, seen.max() + 1),
        {"num_heads": heads, "kv_num_heads": heads},
        dtypes=[packed.dtype] * 3,
        shapes=[(packed.shape[0], 1, packed.shape[1] // (PARTS + 1)), keys.shape, values.shape],
        version=1,
    )
    return context.squeeze(1), keys, values


def _side_by_side(*products: nn.Linear) -> nn.Linear:
    """Return several products of one input as one."""
    joined = nn.Linear(products[0].in_features, sum(product.out_features for product in products))
    with torch.no_grad():
        joined.weight.copy_(torch.cat([product.weight for product in products]))
        joined.bias.copy_(torch.cat([product.bias for product in products]))
    return joined


def _scale_query(attention: MultiHeadAttention) -> nn.Linear:
    """Return the product that makes queries, which come out scaled as attention needs them.

    The scale is the square root of a head's size, 1/8 for one of 64: such a power of two changes no digit.
    """
    query = attention.query
    scaled = nn.Linear(query.in_features, query.out_features)
    scale = (query.out_features // attention.heads) ** -0.5
    with torch.no_grad():
        scaled.weight.copy_(query.weight * scale)
        scaled.bias.copy_(query.bias * scale)
    return scaled


def _encoder(model: Transformer) -> list[EncoderLayer]:
    return [cast("EncoderLayer", layer) for layer in model.encoder]


def _decoder(model: Transformer | TransformerDecoder) -> list[DecoderLayer]:
    return [cast("DecoderLayer", layer) for layer in model.decoder]


def _buffers(layers: int, batch: int, heads: int, room: int, head: int) -> Sequence[Tensor]:
    return [torch.zeros(batch, heads, room, head) for _ in range(PARTS * layers)]

"""A small Transformer of random weights and its graphs, made once for all tests of a run; they must not change it.

It knows no test.
"""

from __future__ import annotations

import functools

import torch

from regard.export.families.profile import Traced
from regard.export.families.transformer import Body
from regard.export.families.transformer_profiles import rounded_for_storage, trace_transformer
from regard.training.models.transformer import Transformer, TransformerConfig

SIZES = TransformerConfig(
    vocabulary=100, output=80, dim=64, heads=2, feed_forward=96, encoder_layers=1, decoder_layers=2, longest=300
)


@functools.cache
def small_transformer() -> Transformer:
    """Return the model, whose weights are such as bundles store without loss."""
    torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType]  half typed
    return rounded_for_storage(Transformer(SIZES).eval())


@functools.cache
def small_graphs(body: Body) -> Traced:
    """Return its graphs in float32; to trace them takes long."""
    return trace_transformer(small_transformer(), body)

"""Checks what a manifest says of limits and attention, by itself and against the ports of its graphs.

It does not know files: who reads them is `export.bundle`.
"""

from __future__ import annotations

from export.errors import BundleError
from export.ports import ModelPorts
from regard.v1 import bundle_pb2

# Columns of top-k attention travel as uint16.
LARGEST_LIMIT = 65_535


def check_limits(limits: bundle_pb2.Limits) -> None:
    """Check that both limits are there and can be served. Raises BundleError that names the one at fault."""
    # A source is at least one token and its end of sentence.
    for name, value, least in (
        ("max_source_tokens", limits.max_source_tokens, 2),
        ("max_target_tokens", limits.max_target_tokens, 1),
    ):
        if not least <= value <= LARGEST_LIMIT:
            raise BundleError(f"limits.{name} is {value}, but it must be {least} to {LARGEST_LIMIT}.")


def check_attention(attention: bundle_pb2.AttentionAxes) -> None:
    """Check that the heads that align are some of those there are, each once. Raises BundleError."""
    layers, heads = attention.layers, attention.heads
    if layers < 0 or heads < 0 or (layers == 0) != (heads == 0):
        raise BundleError(f"attention has {layers} layers and {heads} heads; both must be positive, or both 0.")
    pairs = [(pair.layer, pair.head) for pair in attention.alignment_heads]
    if bool(pairs) != bool(layers):
        raise BundleError(f"attention.alignment_heads has {len(pairs)} entries for {layers} layers of attention.")
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise BundleError(
                f"attention.alignment_heads names layer {layer}, head {head} of {layers} layers and {heads} heads."
            )
    if len(set(pairs)) < len(pairs):
        raise BundleError("attention.alignment_heads names a head twice.")


def check_attention_ports(attention: bundle_pb2.AttentionAxes, ports: ModelPorts) -> None:
    """Check that the graphs have as many layers and heads as the manifest says. Raises BundleError."""
    if (attention.layers, attention.heads) != (ports.layers, ports.heads):
        raise BundleError(
            f"attention has {attention.layers} layers and {attention.heads} heads, "
            f"but the graphs give {ports.layers} and {ports.heads}."
        )

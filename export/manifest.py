"""Checks what a manifest says of limits, attention and parity, by itself and against the ports of its graphs.

It does not know files: who reads them is `export.bundle`.
"""

from __future__ import annotations

from math import inf

from export.errors import BundleError, ParityError
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


def check_parity(profile: bundle_pb2.Profile, ports: ModelPorts) -> None:
    """Check that a profile was compared with its model, on every port, and found within what was allowed.

    Raises ParityError that names the profile, and the port at fault.
    """
    parity = profile.parity
    where = f"The parity record of profile {profile.name!r}"
    if not profile.HasField("parity"):
        raise ParityError(f"{where} is missing: nothing says that its graphs compute what the model does.")
    # Written so that what is no number is refused.
    if not 0 < parity.tolerance < inf:
        raise ParityError(f"{where} has a tolerance of {parity.tolerance}, but it must be a positive number.")
    for name, tried in (
        ("batches", parity.batches),
        ("source_lengths", parity.source_lengths),
        ("steps", (parity.steps,)),
    ):
        if not tried or min(tried) < 1:
            raise ParityError(f"{where} has {name} {list(tried)}, but they must be positive numbers.")
    if not 0 <= parity.greedy_agreement <= 1:
        raise ParityError(f"{where} has a greedy agreement of {parity.greedy_agreement}, but it must be 0 to 1.")
    names = {port.name for port in (*ports.encode.outputs, *ports.step.outputs)}
    compared = [entry.port for entry in parity.ports]
    for name in sorted(names - set(compared)):
        raise ParityError(f"{where} does not cover the port {name!r}.")
    for entry in parity.ports:
        if entry.port not in names or compared.count(entry.port) > 1:
            raise ParityError(f"{where} covers {entry.port!r}, which is no port of its graphs, or is there twice.")
        if not 0 <= entry.worst_absolute <= parity.tolerance:
            raise ParityError(
                f"{where} says that {entry.port!r} is off by {entry.worst_absolute:.3g}, but {parity.tolerance:.3g} "
                "is allowed."
            )

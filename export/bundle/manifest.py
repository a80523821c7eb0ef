"""Checks what a manifest says of limits, attention and parity, by itself and against the ports of its graphs.

It does not know files: who reads them is `regard.export.bundle.writer`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.contract.parity import parity_fault
from regard.export.errors import BundleError, ParityError
from regard.export.ports import GraphPorts, ModelPorts, Role
from regard.export.surgery.vocabularies import unpack_tokens
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
    if attention.alignment_lag not in (0, 1):
        raise BundleError(f"attention.alignment_lag is {attention.alignment_lag}, but it is 0 or 1.")
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


def read_target_vocabularies(
    manifest: bundle_pb2.Bundle, step: GraphPorts, predictable: int
) -> dict[str, NDArray[np.int64]]:
    """Return the tokens of each target language that has scores of its own.

    Raises BundleError if they are not those that the step's scores are of.
    """
    vocabularies: dict[str, NDArray[np.int64]] = {}
    for entry in manifest.target_vocabularies:
        if entry.language not in manifest.target_languages or entry.language in vocabularies:
            raise BundleError(f"target_vocabularies names {entry.language!r}, no target language, or one named before.")
        try:
            vocabularies[entry.language] = unpack_tokens(entry.tokens, predictable)
        except ValueError as error:
            raise BundleError(f"target_vocabularies: {entry.language}: {error}.") from error
        if manifest.tokenizer.end_id not in vocabularies[entry.language]:
            raise BundleError(f"target_vocabularies: {entry.language} lacks the end of sentence.")
    promised = [port.axes for port in step.outputs if port.role is Role.SCORES][1:]
    if promised != [("batch", len(tokens)) for tokens in vocabularies.values()]:
        sizes = {language: len(tokens) for language, tokens in vocabularies.items()}
        raise BundleError(f"target_vocabularies have {sizes or 'no'} tokens, but the step's scores are {promised}.")
    return vocabularies


def check_image(manifest: bundle_pb2.Bundle, ports: ModelPorts) -> None:
    """Check that a captioner, and nothing else, reads pictures of the size and map that its manifest says.

    Raises BundleError.
    """
    if (manifest.task == bundle_pb2.TASK_CAPTIONING) != manifest.HasField("image"):
        raise BundleError("image must be there for the task captioning and for no other.")
    image = manifest.image
    stated = (image.height, image.width, 3) if manifest.HasField("image") else None
    if ports.picture != stated:
        raise BundleError(f"The encode graph reads {ports.picture or 'ids'}, but the manifest says {stated or 'ids'}.")
    if stated is None:
        return
    cells = image.rows * image.columns
    if not cells == ports.cells == manifest.limits.max_source_tokens:
        raise BundleError(
            f"image has {image.rows} x {image.columns} cells and limits.max_source_tokens is "
            f"{manifest.limits.max_source_tokens}, but the graphs look at {ports.cells} positions."
        )
    if image.resampling not in (bundle_pb2.RESAMPLING_BILINEAR, bundle_pb2.RESAMPLING_BICUBIC):
        raise BundleError("image.resampling is neither bilinear nor bicubic.")
    if len(image.ground) != 3 or not all(0 <= value <= 255 for value in image.ground):
        raise BundleError(f"image.ground is {list(image.ground)}, but it must be three values of 0 to 255.")


def check_parity(profile: bundle_pb2.Profile, ports: ModelPorts) -> None:
    """Check that a profile was compared with its model, on every port, and found within what was allowed.

    Raises ParityError that names the profile, and the port at fault.
    """
    fault = parity_fault(profile, {port.name for port in (*ports.encode.outputs, *ports.step.outputs)})
    if fault is not None:
        raise ParityError(f"Profile {profile.name!r}: {fault}.")

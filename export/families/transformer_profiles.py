"""Makes the profiles of a trained Transformer: portable, and cpu in int8 or float32."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from onnx import ModelProto
from torch import nn

from regard.contract.model_ports import with_target_vocabularies
from regard.export.calibration.calibrate import find_encode_ranges, find_ranges
from regard.export.families.profile import ExportedProfile, Say, Traced, describe_profile
from regard.export.families.trace import trace
from regard.export.families.transformer import Body, open_transformer
from regard.export.families.transformer_machine import TransformerMachine
from regard.export.parity.comparison import Grid
from regard.export.parity.greedy import LARGEST_TARGET, Source
from regard.export.parity.runtime import OnnxMachine
from regard.export.surgery.checks import PLAIN
from regard.export.surgery.quantize import CONTRIB, observed, prepare, quantize
from regard.export.surgery.storage import round_weights, store_as_float16
from regard.export.surgery.tables import gather_rows, round_rows, share_tables, store_tables
from regard.export.surgery.vocabularies import Vocabularies, score_vocabularies
from regard.training.models.attention import MultiHeadAttention
from regard.training.models.caption_transformer import TransformerDecoder
from regard.training.models.transformer import Transformer
from regard.v1 import bundle_pb2

# Weights were rounded to what is stored, so only the order of sums differs.
ROUNDING_TOLERANCE = 1e-4
# int8 is held by how often it decides as the trained model does; the bounds on values only catch what is broken.
INT8_TOLERANCES = {"": 4.0, "scores": 8.0, "attention": 1.0}

# What has a decoder of Transformer layers.
Decoding = TypeVar("Decoding", Transformer, TransformerDecoder)


def trace_transformer(model: Transformer, body: Body) -> Traced:
    """Return the graphs of a model whose attention over what was said has this body."""
    opened = open_transformer(model, body)
    domains = PLAIN if body == "plain" else PLAIN | {CONTRIB}
    encode = trace(opened.encode, opened.encode_samples, opened.ports.encode)
    step = trace(opened.step, opened.step_samples, opened.ports.step, domains=domains)
    return Traced(encode, step, opened.ports)


def rounded_for_storage(model: Decoding) -> Decoding:
    """Return a copy with matrices rounded to float16 and embeddings to bytes with a scale for each row."""
    rounded = copy.deepcopy(fit_positions(model))
    round_weights(rounded)
    with torch.no_grad():
        for module in rounded.modules():
            if isinstance(module, MultiHeadAttention):
                # Graphs hold queries' weights scaled, and where the scale changes no digit float16 can hold those, too.
                scale = (module.query.out_features // module.heads) ** -0.5
                if math.frexp(scale)[0] != 0.5:
                    continue
                module.query.weight.copy_((module.query.weight * scale).half().float() / scale)
                module.query.bias.copy_((module.query.bias * scale).half().float() / scale)
        table = round_rows(model.embedding.weight.numpy(force=True))
        rounded.embedding.weight.copy_(torch.tensor(table))
    return round_positions(rounded)


def fit_positions(model: Decoding) -> Decoding:
    """Return a copy that tells apart no more positions than a bundle serves: tables of them are part of every graph."""
    fitted = copy.deepcopy(model)
    positions = fitted.positions
    positions.longest = min(positions.longest, LARGEST_TARGET)
    if positions.kind == "sinusoidal":
        positions.sinusoidal = positions.sinusoidal[: positions.longest].clone()
    elif positions.kind == "learned":
        positions.learned = nn.Parameter(positions.learned[: positions.longest].detach().clone())
    return fitted


def round_positions(model: Decoding) -> Decoding:
    """Round a computed table of positions to float16, as parameters are."""
    if model.positions.kind == "sinusoidal":
        model.positions.sinusoidal = model.positions.sinusoidal.half().float()
    return model


def export_portable(
    rounded: Transformer,
    traced: Traced,
    vocabularies: Vocabularies,
    grid: Grid,
    compared: Sequence[Sequence[int]],
    say: Say,
) -> ExportedProfile:
    """Export the plain graphs of a rounded model; matrices are stored as float16, embeddings as bytes."""
    say(f"profile portable: {len(traced.step.graph.node)} operators a step, stored as float16, embeddings as bytes")
    encode, step = (stored(graph) for graph in (traced.encode, traced.step))
    return _profile(
        "portable",
        bundle_pb2.PRECISION_FLOAT16_WEIGHTS,
        Traced(encode, step, traced.ports),
        rounded,
        vocabularies,
        tolerances={"": ROUNDING_TOLERANCE},
        grid=grid,
        compared=compared,
    )


def export_cpu_float32(
    model: Transformer, vocabularies: Vocabularies, grid: Grid, compared: Sequence[Sequence[int]], say: Say
) -> ExportedProfile:
    """Export the graphs that `export_cpu` quantises as they are, to compare speed and tokens with."""
    traced = trace_transformer(fit_positions(model), "shared-buffer")
    say(f"profile cpu-float32: {len(traced.step.graph.node)} operators a step")
    return _profile(
        "cpu-float32",
        bundle_pb2.PRECISION_FLOAT32,
        traced,
        model,
        vocabularies,
        tolerances={"": ROUNDING_TOLERANCE},
        grid=grid,
        compared=compared,
        in_place=True,
    )


def export_cpu(
    model: Transformer,
    vocabularies: Vocabularies,
    grid: Grid,
    calibration: Sequence[Sequence[int]],
    compared: Sequence[Sequence[int]],
    say: Say,
) -> ExportedProfile:
    """Export for ONNX Runtime on a CPU: products in int8, buffers written in place."""
    traced = trace_transformer(round_positions(fit_positions(model)), "shared-buffer")
    say(f"profile cpu: {len(traced.step.graph.node)} operators a step, ranges from {len(calibration)} sentences")
    return _profile(
        "cpu",
        bundle_pb2.PRECISION_INT8,
        quantize_transformer(traced, calibration, say),
        model,
        vocabularies,
        tolerances=INT8_TOLERANCES,
        grid=grid,
        compared=compared,
        in_place=True,
    )


def quantize_transformer(traced: Traced, calibration: Sequence[Sequence[int]], say: Say) -> Traced:
    """Return graphs in int8, their activations' ranges taken from greedy decoding of sentences."""
    encode = prepare(traced.encode)
    ranges = find_encode_ranges(encode, observed(encode), calibration)
    _say_ranges("encode", ranges, say)
    return Traced(stored(quantize(encode, ranges)), quantize_step(traced, calibration, say), traced.ports)


def quantize_step(traced: Traced, calibration: Sequence[Source], say: Say) -> ModelProto:
    """Return the step in int8, as `quantize_transformer` does."""
    step = prepare(traced.step)
    machine = OnnxMachine(traced.encode.SerializeToString(), traced.step.SerializeToString())
    ranges = find_ranges(machine, step, observed(step), traced.ports, calibration)
    _say_ranges("step", ranges, say)
    return stored(share_tables(quantize(step, ranges)))


def _say_ranges(what: str, ranges: Mapping[str, float], say: Say) -> None:
    say(f"  ranges of {what}: " + ", ".join(f"{value:.3g}" for value in ranges.values()))


def stored(graph: ModelProto) -> ModelProto:
    """Return a graph that takes less room, and looks up the rows of what is not stored by rows as the others are."""
    return gather_rows(store_as_float16(store_tables(graph)))


def _profile(
    name: str,
    precision: bundle_pb2.Precision.ValueType,
    graphs: Traced,
    reference: Transformer,
    vocabularies: Vocabularies,
    *,
    tolerances: Mapping[str, float],
    grid: Grid,
    compared: Sequence[Sequence[int]],
    in_place: bool = False,
) -> ExportedProfile:
    """Add the scores of target vocabularies, and describe the graphs as a profile of the model."""
    ports = graphs.ports
    if vocabularies:
        ports = with_target_vocabularies(ports, vocabularies)
        graphs = Traced(graphs.encode, score_vocabularies(graphs.step, ports), ports)
    return describe_profile(
        name,
        precision,
        graphs,
        TransformerMachine(reference, ports),
        tolerances=tolerances,
        grid=grid,
        compared=compared,
        in_place=in_place,
    )

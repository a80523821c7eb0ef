"""Exports a model of any family by its Protocol alone: the profiles portable and cpu.

A family needs graphs of its own only where they are faster, as those of a Transformer with its KV cache in place are.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

from torch import nn

from regard.contract.model_ports import ModelPorts
from regard.export.calibration.calibrate import find_ranges
from regard.export.families.captioner import open_captioner
from regard.export.families.graphs import TorchMachine, TraceableModel, open_model
from regard.export.families.growing_state import (
    BufferedStepGraph,
    RowByRowMachine,
    find_growth,
    open_growing_model,
)
from regard.export.families.profile import ExportedProfile, Say, Traced, describe_profile
from regard.export.families.trace import trace
from regard.export.parity.comparison import Grid
from regard.export.parity.greedy import Source
from regard.export.parity.runtime import Machine, OnnxMachine
from regard.export.surgery.quantize import observed, prepare, quantize
from regard.export.surgery.storage import round_weights, store_as_float16
from regard.training.models.captioner import Captioner
from regard.training.models.protocol import ExportableModel
from regard.v1 import bundle_pb2

# Float16 storage loses nothing against weights that were rounded before, so only the order of sums differs.
PORTABLE_TOLERANCE = 1e-4
# int8 is held by how often it decides as the trained model does; the bounds on values only catch what is broken.
INT8_TOLERANCES = {"": 1.0, "scores": 2.0}


def export_generic(
    trained: ExportableModel,
    *,
    vocabulary: int,
    grid: Grid,
    calibration: Sequence[Source],
    compared: Sequence[Source],
    say: Say,
) -> tuple[list[ExportedProfile], ModelPorts]:
    """Return the profiles, which share one encode graph, and the ports of both.

    portable stores weights as float16; cpu has the step in int8, its activations' ranges taken from greedy decoding of
    calibration. Both are compared with the model over the grid and over compared.

    Raises TraceError for a model that cannot be traced or whose state grows in another way than the Protocol says,
    ParityError for graphs that differ from it.
    """
    rounded = copy.deepcopy(trained)
    round_weights(cast("nn.Module", rounded))
    rounded.prepare_for_export()
    model = _open(trained, vocabulary)
    stored = _open(rounded, vocabulary)

    say("tracing the encoder and the decoder step, each with inputs of two sizes")
    encode = store_as_float16(trace(stored.encode, stored.encode_samples, stored.ports.encode))
    step = trace(stored.step, stored.step_samples, stored.ports.step)

    say(f"profile portable: {len(step.graph.node)} operators a step, weights stored as float16")
    half = store_as_float16(step)
    portable = describe_profile(
        "portable",
        bundle_pb2.PRECISION_FLOAT16_WEIGHTS,
        Traced(encode, half, stored.ports),
        _reference(stored),
        tolerances={"": PORTABLE_TOLERANCE},
        grid=grid,
        compared=compared,
    )

    say(f"profile cpu: int8, ranges of activations from {len(calibration)} sources")
    prepared = prepare(step)
    machine = OnnxMachine(encode.SerializeToString(), half.SerializeToString())
    ranges = find_ranges(machine, prepared, observed(prepared), stored.ports, calibration)
    say("  " + ", ".join(f"{name} {value:.3g}" for name, value in ranges.items()))
    cpu = describe_profile(
        "cpu",
        bundle_pb2.PRECISION_INT8,
        Traced(encode, store_as_float16(quantize(prepared, ranges)), model.ports),
        _reference(model),
        tolerances=INT8_TOLERANCES,
        grid=grid,
        compared=compared,
        encode_file=portable.profile.encode.file,
    )
    return [portable, cpu], stored.ports


def _open(model: ExportableModel, vocabulary: int) -> TraceableModel:
    if isinstance(model, Captioner):
        return open_captioner(model, vocabulary=vocabulary)
    growth = find_growth(model, vocabulary=vocabulary)
    if growth:
        return open_growing_model(model, growth, vocabulary=vocabulary)
    return open_model(model, vocabulary=vocabulary)


def _reference(opened: TraceableModel) -> Machine:
    """Return what graphs are compared with: the model run by torch."""
    return RowByRowMachine(opened) if isinstance(opened.step, BufferedStepGraph) else TorchMachine(opened)

"""Makes the profiles of a captioner with a Transformer decoder: portable, and cpu with the step in int8."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from regard.contract.model_ports import ModelPorts
from regard.export.families.captioner_transformer import CaptionerMachine, decoder_of, open_transformer_captioner
from regard.export.families.profile import ExportedProfile, Say, Traced, describe_profile
from regard.export.families.trace import trace
from regard.export.families.transformer_profiles import (
    INT8_TOLERANCES,
    ROUNDING_TOLERANCE,
    fit_positions,
    quantize_step,
    round_positions,
    rounded_for_storage,
    stored,
)
from regard.export.parity.comparison import Grid
from regard.export.parity.greedy import Source
from regard.export.surgery.checks import PLAIN
from regard.export.surgery.quantize import CONTRIB
from regard.export.surgery.storage import round_weights, store_as_float16
from regard.training.models.captioner import Captioner
from regard.v1 import bundle_pb2


def round_captioner(model: Captioner) -> Captioner:
    """Return a copy whose weights the profile portable stores without loss."""
    rounded = copy.deepcopy(model)
    round_weights(rounded)
    rounded.describer.decoder = rounded_for_storage(decoder_of(model))
    return rounded


def export_captioner(
    model: Captioner, grid: Grid, calibration: Sequence[Source], compared: Sequence[Source], say: Say
) -> tuple[list[ExportedProfile], ModelPorts]:
    """Return the profiles, which share one encode graph, and the ports of both."""
    rounded = round_captioner(model)
    opened = open_transformer_captioner(rounded, "plain")
    say("tracing the encoder and the decoder step, each with inputs of two sizes")
    encode = store_as_float16(trace(opened.encode, opened.encode_samples, opened.ports.encode))
    step = trace(opened.step, opened.step_samples, opened.ports.step)
    say(f"profile portable: {len(step.graph.node)} operators a step, stored as float16, embeddings as bytes")
    portable = describe_profile(
        "portable",
        bundle_pb2.PRECISION_FLOAT16_WEIGHTS,
        Traced(encode, stored(step), opened.ports),
        CaptionerMachine(rounded),
        tolerances={"": ROUNDING_TOLERANCE},
        grid=grid,
        compared=compared,
    )

    fitted = copy.deepcopy(model)
    fitted.describer.decoder = round_positions(fit_positions(decoder_of(model)))
    opened = open_transformer_captioner(fitted, "shared-buffer")
    step = trace(opened.step, opened.step_samples, opened.ports.step, domains=PLAIN | {CONTRIB})
    say(f"profile cpu: {len(step.graph.node)} operators a step, ranges from {len(calibration)} pictures")
    cpu = describe_profile(
        "cpu",
        bundle_pb2.PRECISION_INT8,
        Traced(encode, quantize_step(Traced(encode, step, opened.ports), calibration, say), opened.ports),
        CaptionerMachine(model),
        tolerances=INT8_TOLERANCES,
        grid=grid,
        compared=compared,
        in_place=True,
        encode_file=portable.profile.encode.file,
    )
    return [portable, cpu], opened.ports

"""Makes the profile cuda of a Transformer: plain operators in float16, for graphics cards.

It runs on a processor alone, which computes in float32 and rounds as a graphics card does; on such a card nothing of it
is checked. It does not write files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.contract.model_ports import with_target_vocabularies
from regard.export.families.profile import ExportedProfile, Say, Traced, describe_profile
from regard.export.families.transformer_machine import TransformerMachine
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.runtime import CPU_PROVIDER, Arrays, Machine, OnnxMachine
from regard.export.surgery.half import compute_in_float16, ports_in_float16, round_in_float32
from regard.export.surgery.vocabularies import Vocabularies, score_vocabularies
from regard.training.models.transformer import Transformer
from regard.v1 import bundle_pb2

# Numbers of about 10 have steps of 0.008 in float16.
FLOAT16_TOLERANCE = 0.05


def export_cuda(
    rounded: Transformer,
    traced: Traced,
    vocabularies: Vocabularies,
    grid: Grid,
    compared: Sequence[Sequence[int]],
    say: Say,
) -> ExportedProfile:
    """Export the plain graphs of a rounded model, which are those of the profile portable, in float16.

    Raises ParityError if they differ from the model by more than rounding explains, both as they are and with every
    result rounded.
    """
    ports, step = traced.ports, traced.step
    if vocabularies:
        ports = with_target_vocabularies(ports, vocabularies)
        step = score_vocabularies(step, ports)
    half = ports_in_float16(ports)
    graphs = Traced(compute_in_float16(traced.encode, half.encode), compute_in_float16(step, half.step), half)
    say(f"profile cuda: {len(graphs.step.graph.node)} operators a step, in float16; unverified on a graphics card")
    reference = InFloat32(TransformerMachine(rounded, ports))
    tolerances = {"": FLOAT16_TOLERANCE}
    # The graphs themselves, which a processor runs without rounding in between.
    exported = describe_profile(
        "cuda", bundle_pb2.PRECISION_FLOAT16, graphs, reference, tolerances=tolerances, grid=grid, compared=()
    )
    rounding = OnnxMachine(*(round_in_float32(graph).SerializeToString() for graph in (graphs.encode, graphs.step)))
    parity = measure(reference, rounding, half, grid=grid, tolerances=tolerances, sources=compared)
    parity.provider, parity.emulated = CPU_PROVIDER, True
    exported.profile.parity.CopyFrom(parity)
    return exported


class InFloat32:
    """A machine that computes in float32, fed with what ports in float16 hold."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def encode(self, inputs: Arrays) -> Arrays:
        """Read sources."""
        return self._machine.encode(inputs)

    def step(self, inputs: Arrays) -> Arrays:
        """Predict a token."""
        return self._machine.step(
            {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in inputs.items()}
        )

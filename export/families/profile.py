"""Describes a pair of graphs as a profile of a bundle: checked, compared with the model, named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from onnx import ModelProto

from regard.contract.model_ports import ModelPorts
from regard.export.bundle.writer import describe_graph
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.greedy import Source
from regard.export.parity.runtime import Machine, OnnxMachine
from regard.export.surgery.checks import PLAIN, check_graph
from regard.export.surgery.quantize import CONTRIB
from regard.v1 import bundle_pb2

Say = Callable[[str], object]


class Traced(NamedTuple):
    """Both graphs of a model in float32, with their ports."""

    encode: ModelProto
    step: ModelProto
    ports: ModelPorts


class ExportedProfile(NamedTuple):
    """A profile and the bytes of its graphs by file name."""

    profile: bundle_pb2.Profile
    files: Mapping[str, bytes]


def describe_profile(
    name: str,
    precision: bundle_pb2.Precision.ValueType,
    graphs: Traced,
    reference: Machine,
    *,
    tolerances: Mapping[str, float],
    grid: Grid,
    compared: Sequence[Source],
    in_place: bool = False,
    encode_file: str = "",
) -> ExportedProfile:
    """Check graphs, compare them with a reference, and describe them as a profile.

    encode_file is that of the profile whose encode graph this one shares; one of its own if empty.
    """
    ports = graphs.ports
    domains = PLAIN if name in ("portable", "cuda") else PLAIN | {CONTRIB}
    for graph, described in ((graphs.encode, ports.encode), (graphs.step, ports.step)):
        check_graph(graph, described, domains=domains)
    names = {"encode": encode_file or f"encode.{name}.onnx", "step": f"step.{name}.onnx"}
    files = {
        names["encode"]: graphs.encode.SerializeToString(deterministic=True),
        names["step"]: graphs.step.SerializeToString(deterministic=True),
    }
    machine = OnnxMachine(files[names["encode"]], files[names["step"]], in_place=ports.shared if in_place else None)
    return ExportedProfile(
        bundle_pb2.Profile(
            name=name,
            precision=precision,
            encode=describe_graph(names["encode"], graphs.encode, ports.encode),
            step=describe_graph(names["step"], graphs.step, ports.step),
            state_in_place=in_place,
            parity=measure(
                reference,
                machine,
                ports,
                grid=grid,
                tolerances=tolerances,
                sources=compared,
            ),
        ),
        files,
    )

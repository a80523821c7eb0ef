"""Traces a module to an ONNX graph, and refuses one that would not hold for every batch and source."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from onnx import ModelProto
from torch import Tensor, nn
from torch.export import Dim

from regard.contract.model_ports import GraphPorts
from regard.export.errors import TraceError
from regard.export.surgery.checks import PLAIN, check_graph

OPSET = 20

# What the exporter says about itself on every run. Anything else that it warns of is a reason to refuse.
_HARMLESS = re.compile(
    r"# The axis name: .* will not be used, since it shares the same shape constraints"
    r"|`isinstance\(treespec, LeafSpec\)` is deprecated"
)


def trace(
    module: nn.Module,
    samples: Sequence[tuple[Tensor, ...]],
    ports: GraphPorts,
    *,
    domains: frozenset[str] = PLAIN,
) -> ModelProto:
    """Return the graph of a module that takes and returns one tensor for each port, in their order.

    samples are inputs of different sizes; all of them must lead to the same graph. domains are those whose operators it
    may have.

    Raises TraceError for code whose course depends on sizes or values of tensors, which a graph would freeze as it
    was for the sample, and GraphError for what `check_graph` finds.
    """
    models = [_trace_once(module, sample, ports) for sample in samples]
    for model in models:
        check_graph(model, ports, domains=domains)
    for model in models[1:]:
        if _anonymous(model) != _anonymous(models[0]):
            raise TraceError("The model's code takes another course for some sizes: its graph depends on the sample.")
    return models[0]


def _trace_once(module: nn.Module, sample: tuple[Tensor, ...], ports: GraphPorts) -> ModelProto:
    sizes = {axis: Dim(axis) for port in ports.inputs for axis in port.axes if isinstance(axis, str)}
    shapes = tuple(
        {i: sizes[axis] for i, axis in enumerate(port.axes) if isinstance(axis, str)} for port in ports.inputs
    )
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells at length of packages that are not needed
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            program = torch.onnx.export(  # pyright: ignore[reportUnknownMemberType]  half typed
                module,
                (sample,),
                dynamo=True,
                opset_version=OPSET,
                input_names=[port.name for port in ports.inputs],
                output_names=[port.name for port in ports.outputs],
                dynamic_shapes=(shapes,),
                external_data=False,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        cause = str(error.__cause__ or error).strip().split("\n")[0]
        raise TraceError(f"The model's code cannot be traced: {cause}") from error
    finally:
        logger.setLevel(level)
    for warning in caught:
        if not _HARMLESS.search(str(warning.message)):
            raise TraceError(f"The exporter warns that the graph may be wrong: {warning.message}")
    assert program is not None
    exported: Any = program.exported_program  # half typed
    for name, bounds in exported.range_constraints.items():
        # Where code branches on a size, the exporter keeps the sample's branch and narrows the range without a word.
        if bounds.lower > 1 or bounds.upper < 2**31:
            raise TraceError(
                f"The model's code takes another course for some sizes: the graph would hold for {name} in "
                f"[{bounds.lower}, {bounds.upper}] only."
            )
    return _tidy(program.model_proto)


def _anonymous(model: ModelProto) -> tuple[object, ...]:
    """Return a graph's nodes and constants with their names replaced by the order in which they are met."""
    constants = {tensor.name: tensor.raw_data for tensor in model.graph.initializer}
    order: dict[str, int] = {}

    def number(name: str) -> tuple[int, bytes]:
        return order.setdefault(name, len(order)), constants.get(name, b"")

    return tuple(
        (
            node.op_type,
            tuple(sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)),
            tuple(map(number, node.input)),
            tuple(map(number, node.output)),
        )
        for node in model.graph.node
    )


def _tidy(traced: ModelProto) -> ModelProto:
    """Take out what only tells how the graph was made: line numbers and paths of the code, shapes in between."""
    model = ModelProto()
    model.CopyFrom(traced)
    model.graph.ClearField("value_info")
    for described in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        described.ClearField("metadata_props")
        described.ClearField("doc_string")
    for tensor in model.graph.initializer:
        tensor.ClearField("doc_string")
        tensor.ClearField("metadata_props")
    return model

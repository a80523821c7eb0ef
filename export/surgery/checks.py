"""Checks what holds for every graph that goes into a bundle, whether it was traced, rewritten or read from a file."""

from __future__ import annotations

import onnx
from onnx import ModelProto, NodeProto, TensorProto

from regard.contract.model_ports import GraphPorts
from regard.contract.ports import Port
from regard.export.errors import GraphError
from regard.export.surgery.rewrite import attributes

PLAIN = frozenset({""})
DTYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "uint8": TensorProto.UINT8,
}


def check_graph(model: ModelProto, ports: GraphPorts, *, domains: frozenset[str] = PLAIN) -> None:
    """Check what holds for every graph of ours, traced or rewritten.

    Raises GraphError for ports other than promised (an axis that lost its name became a constant), weights outside
    the file, operators of other domains than the given ones, a GRU or LSTM that ignores lengths, a GRU that resets
    before the product, and an LSTM that lets in what it forgets.
    """
    for kind, promised, found in (
        ("input", ports.inputs, model.graph.input),
        ("output", ports.outputs, model.graph.output),
    ):
        expected, actual = [_signature(port) for port in promised], [_found_signature(value) for value in found]
        for want in expected:
            if want not in actual:
                raise GraphError(f"The graph should have the {kind} {want}, but it has {actual}.")
        if len(actual) != len(expected):
            raise GraphError(f"The graph should have {len(expected)} {kind}s, but it has {actual}.")
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            raise GraphError(f"{tensor.name} lies outside the graph's file, where it could be lost or exchanged.")
    for node in model.graph.node:
        if node.domain not in domains:
            raise GraphError(f"{node.op_type} is of the domain {node.domain}, which this profile does not allow.")
        if node.op_type in ("GRU", "LSTM"):
            _check_recurrent(node)
    try:
        onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]  half typed
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise GraphError(f"The graph is not valid ONNX: {error}") from error


def _check_recurrent(node: NodeProto) -> None:
    settings = attributes(node)
    if node.op_type == "GRU" and settings.get("linear_before_reset", 0) != 1:
        raise GraphError(
            f"{node.name} resets before the product, but torch's GRU does after: linear_before_reset is not 1."
        )
    if node.op_type == "LSTM" and settings.get("input_forget", 0) != 0:
        raise GraphError(
            f"{node.name} has one gate for what enters and what is forgotten, but torch's LSTM has two: input_forget "
            "is not 0."
        )
    if len(node.input) < 5 or not node.input[4]:
        raise GraphError(f"{node.name} has no sequence_lens: it would read padding as words.")


def _signature(port: Port) -> tuple[str, str, tuple[str | int, ...]]:
    return port.name, port.dtype, port.axes


def _found_signature(value: onnx.ValueInfoProto) -> tuple[str, str, tuple[str | int, ...]]:
    tensor = value.type.tensor_type
    dtype = next((name for name, number in DTYPES.items() if number == tensor.elem_type), str(tensor.elem_type))
    return value.name, dtype, tuple(axis.dim_param or axis.dim_value for axis in tensor.shape.dim)

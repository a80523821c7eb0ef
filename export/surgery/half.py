"""Turns a graph in float32 into one in float16, and that into one that rounds as it does where float16 is not computed.

Softmaxes and what lies between them and the products stay in float32: what masks is as large as float32 goes, and rows
of weights have to sum to 1. It does not know models, nor what runs the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

from regard.contract.model_ports import GraphPorts, ModelPorts
from regard.contract.ports import Port
from regard.export.surgery.rewrite import attributes, copy, copy_node, tidy

# Operators at which the neighbourhood of a softmax ends.
_PRODUCTS = ("MatMul", "Gemm", "Conv", "GRU", "LSTM")
_SOFTMAXES = ("Softmax", "LogSoftmax")


def ports_in_float16(ports: ModelPorts) -> ModelPorts:
    """Return the ports of graphs in float16: memory and state are, scores and attention stay in float32."""

    def change(port: Port) -> Port:
        moved = port.role in ("memory", "state") and port.dtype == "float32"
        return replace(port, dtype="float16") if moved else port

    encode, step = (GraphPorts(*(tuple(map(change, side)) for side in graph)) for graph in (ports.encode, ports.step))
    return replace(ports, encode=encode, step=step)


def compute_in_float16(model: ModelProto, ports: GraphPorts) -> ModelProto:
    """Return a graph in float32 as one in float16, whose ports are as in `ports_in_float16`.

    ports are those in float16.
    """
    named = copy(model)
    for number, node in enumerate(named.graph.node):
        node.name = f"node.{number}"  # the converter knows by name which nodes to leave
    exact = _around_softmaxes(named)
    wide = [port.name for port in ports.outputs if port.dtype == "float32"]
    half = convert_float_to_float16(named, keep_io_types=wide, node_block_list=sorted(exact))
    _keep_exact(half, exact)
    half.graph.ClearField("value_info")
    tidy(half)
    return half


def round_in_float32(model: ModelProto) -> ModelProto:
    """Return a graph of the same ports that computes each operator in float32 and rounds its results to float16.

    So do graphics cards, which sum in float32. ONNX Runtime on a processor has no float16 for most operators and leaves
    out the rounding between those that it runs in float32 instead; roundings that the graph asks for it leaves alone.
    """
    halves = _names_of(model, TensorProto.FLOAT16)
    rounding = copy(model)
    for tensor in rounding.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name))
    nodes = [
        _cast(value.name, _wide(value.name), TensorProto.FLOAT) for value in model.graph.input if value.name in halves
    ]
    for node in map(copy_node, model.graph.node):
        node.input[:] = [_wide(name) if name in halves else name for name in node.input]
        if node.op_type == "Cast" and node.output[0] in halves:
            nodes += [node, _cast(node.output[0], _wide(node.output[0]), TensorProto.FLOAT)]
            continue
        made = [name for name in node.output if name in halves]
        node.output[:] = [f"{name}.exact" if name in halves else name for name in node.output]
        nodes.append(node)
        for name in made:
            nodes += [_cast(f"{name}.exact", name, TensorProto.FLOAT16), _cast(name, _wide(name), TensorProto.FLOAT)]
    del rounding.graph.node[:]
    rounding.graph.node.extend(nodes)
    tidy(rounding)
    return rounding


def _around_softmaxes(model: ModelProto) -> set[str]:
    """Return the names of softmaxes and of all nodes that numbers go through between them and products."""
    numbers = _names_of(model, TensorProto.FLOAT)
    makers = {name: node for node in model.graph.node for name in node.output if name in numbers}
    users: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in numbers.intersection(node.input):
            users.setdefault(name, []).append(node)
    softmaxes = [node for node in model.graph.node if node.op_type in _SOFTMAXES]
    before = _reach(softmaxes, lambda node: [makers[name] for name in node.input if name in makers])
    after = _reach(softmaxes, lambda node: [user for name in node.output for user in users.get(name, ())])
    return before | after


def _reach(start: Iterable[NodeProto], neighbours: Callable[[NodeProto], Iterable[NodeProto]]) -> set[str]:
    waiting = list(start)
    reached = {node.name for node in waiting}
    while waiting:
        for node in neighbours(waiting.pop()):
            if node.name not in reached and node.op_type not in _PRODUCTS:
                reached.add(node.name)
                waiting.append(node)
    return reached


def _keep_exact(half: ModelProto, exact: set[str]) -> None:
    """Undo the rounding of what nodes in float32 give to nodes and ports in float32.

    The converter casts all that such a node gives to float16, and casts it back for those that take float32.
    """
    makers = {name: node for node in half.graph.node for name in node.output}
    ports = {value.name for value in half.graph.output}
    renamed: dict[str, str] = {}
    for node in list(half.graph.node):
        maker = makers.get(node.input[0]) if _casts_to(node, TensorProto.FLOAT) else None
        if maker is None or not _casts_to(maker, TensorProto.FLOAT16):
            continue
        first = makers.get(maker.input[0])
        if first is None or first.name not in exact:
            continue
        if node.output[0] in ports:
            renamed[maker.input[0]] = node.output[0]
        else:
            renamed[node.output[0]] = maker.input[0]
        half.graph.node.remove(node)
    for node in half.graph.node:
        for names in (node.input, node.output):
            # Twice, for what a port gets may be read by other nodes, too.
            names[:] = [renamed.get(name, name) for name in (renamed.get(name, name) for name in names)]


def _casts_to(node: NodeProto, dtype: int) -> bool:
    return node.op_type == "Cast" and attributes(node)["to"] == dtype


def _names_of(model: ModelProto, dtype: int) -> set[str]:
    """Return the names of all tensors of a type that are no constants."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    return {value.name for value in values if value.type.tensor_type.elem_type == dtype}


def _cast(name: str, output: str, dtype: int) -> NodeProto:
    return helper.make_node("Cast", [name], [output], to=dtype)


def _wide(name: str) -> str:
    return f"{name}.wide"

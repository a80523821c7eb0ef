"""Small operations on ONNX graphs that the rewriting modules share: constants, shapes, order."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def copy(model: ModelProto) -> ModelProto:
    """Return a copy that can be changed."""
    made = ModelProto()
    made.CopyFrom(model)
    return made


def constants(model: ModelProto) -> dict[str, NDArray[Any]]:
    """Return the graph's constants by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def add_constant(model: ModelProto, name: str, value: NDArray[Any]) -> str:
    """Add a constant, which must be new, and return its name."""
    assert all(tensor.name != name for tensor in model.graph.initializer), name
    model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
    return name


def attributes(node: NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def widths(model: ModelProto) -> dict[str, int]:
    """Return the size of the last axis of every tensor for which it is known."""
    inferred = onnx.shape_inference.infer_shapes(model)
    known: dict[str, int] = {}
    for value in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output):
        axes = value.type.tensor_type.shape.dim
        if axes and axes[-1].HasField("dim_value"):
            known[value.name] = axes[-1].dim_value
    return known


def fold_constants(model: ModelProto) -> None:
    """Compute every node that depends on constants alone."""
    values = constants(model)
    for node in list(model.graph.node):
        if not node.input or any(name not in values for name in node.input):
            continue
        outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output]
        graph = helper.make_graph(
            [node], "constant", [], outputs, [numpy_helper.from_array(values[name], name) for name in node.input]
        )
        evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=model.opset_import))
        results: Any = evaluator.run(None, {})  # pyright: ignore[reportUnknownMemberType]  half typed
        for name, value in zip(node.output, results, strict=True):
            values[name] = np.asarray(value)
            add_constant(model, name, values[name])
        model.graph.node.remove(node)


def tidy(model: ModelProto) -> None:
    """Leave out nodes and constants that nothing uses, and bring nodes into an order in which they can run."""
    graph = model.graph
    # An output that is left out has no name.
    makers = {name: node for node in graph.node for name in node.output if name}
    ordered: list[NodeProto] = []
    done: set[str] = set()

    def visit(name: str) -> None:
        node = makers.get(name)
        if node is None or node.output[0] in done:
            return
        done.add(node.output[0])
        for needed in node.input:
            visit(needed)
        ordered.append(node)

    for output in graph.output:
        visit(output.name)
    used = {name for node in ordered for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    nodes = [copy_node(node) for node in ordered]
    kept_copies = [numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name) for tensor in kept]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept_copies)


def copy_node(node: NodeProto) -> NodeProto:
    """Return a copy that does not belong to any graph."""
    made = NodeProto()
    made.CopyFrom(node)
    return made

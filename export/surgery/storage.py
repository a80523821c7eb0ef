"""Stores a graph's weights as float16, which halves its file; they become float32 again when it is loaded."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from torch import nn

from regard.export.errors import GraphError
from regard.export.surgery.rewrite import add_constant, copy, copy_node

SMALLEST = 256  # elements; fewer are not worth a node


@torch.no_grad()
def round_weights(model: nn.Module) -> None:
    """Round every parameter to what float16 can hold, so that nothing is lost by `store_as_float16`.

    Raises GraphError, naming the parameter, for a value too large for float16.
    """
    for name, parameter in model.named_parameters():
        rounded = parameter.half().float()
        if not torch.isfinite(rounded).all():
            raise GraphError(f"{name} has a value that float16 cannot hold, or one that is not a number.")
        parameter.copy_(rounded)


def store_as_float16(model: ModelProto) -> ModelProto:
    """Return the same graph with each weight that float16 holds without loss stored as float16, and cast before use.

    A weight that is the first rows of another, as an output layer's are of the embeddings that it shares, is cut out
    of it and not stored again. Runtimes do both once, when they load the graph.
    """
    stored = copy(model)
    first: list[NodeProto] = []
    whole: dict[str, NDArray[np.float16]] = {}
    for tensor in sorted(stored.graph.initializer, key=lambda tensor: -math.prod(tensor.dims)):
        if tensor.data_type != TensorProto.FLOAT or math.prod(tensor.dims) < SMALLEST:
            continue
        value = numpy_helper.to_array(tensor)
        with np.errstate(over="ignore"):  # what overflows is not equal below
            half = value.astype(np.float16)
        if not np.array_equal(half.astype(np.float32), value):
            continue
        name = tensor.name
        larger = next((other for other, rows in whole.items() if np.array_equal(rows[: len(half)], half)), None)
        if larger is None:
            whole[name] = half
            tensor.CopyFrom(numpy_helper.from_array(half, f"{name}.float16"))
            first.append(helper.make_node("Cast", [f"{name}.float16"], [name], to=TensorProto.FLOAT))
        else:
            tensor.CopyFrom(numpy_helper.from_array(np.array([len(half)]), f"{name}.rows"))
            start = add_constant(stored, f"{name}.start", np.array([0]))
            first.append(helper.make_node("Slice", [larger, start, f"{name}.rows"], [name]))
    nodes = [*first, *map(copy_node, stored.graph.node)]
    del stored.graph.node[:]
    stored.graph.node.extend(nodes)
    return stored

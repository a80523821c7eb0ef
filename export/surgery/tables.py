"""Stores lookup tables as bytes with a scale for each row, and lets products share them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from regard.export.surgery.quantize import quantize_weight
from regard.export.surgery.rewrite import add_constant, attributes, constants, copy, tidy

STEPS = 127
SMALLEST = 4096  # elements; fewer are not worth the nodes
# A scale with so few bits that times 127 it is still a float32, so that rounding what was rounded changes nothing.
_SCALE_BITS = np.uint32(0xFFFFF000)


def quantize_rows(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return table [row, dim] as int8 within [-127, 127] and the scale of each row [row]."""
    scale = np.maximum(np.abs(table).max(axis=1) / STEPS, np.finfo(np.float32).tiny).astype(np.float32)
    scale = (scale.view(np.uint32) & _SCALE_BITS).view(np.float32)
    return np.clip(np.rint(table / scale[:, None]), -STEPS, STEPS).astype(np.int8), scale


def round_rows(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a table as it will be read once it is stored as bytes; doing it twice changes nothing."""
    rows, scale = quantize_rows(table)
    return rows.astype(np.float32) * scale[:, None]


def store_tables(model: ModelProto) -> ModelProto:
    """Return a graph whose large tables are stored as bytes.

    Where only rows are looked up, only rows are made float32 again; a table that is multiplied with too is made so as
    a whole, which runtimes do once, when they load the graph.
    """
    stored = copy(model)
    for name, table in _tables(stored).items():
        rows, scale = quantize_rows(table)
        bytes_name = add_constant(stored, f"{name}.int8", rows)
        scale_name = add_constant(stored, f"{name}.int8.scale", scale[:, None])
        if all(node.op_type == "Gather" for node in stored.graph.node if name in node.input):
            _look_up_rows(stored, name, bytes_name, scale_name)
        else:
            whole = [
                helper.make_node("Cast", [bytes_name], [f"{name}.steps"], to=TensorProto.FLOAT),
                helper.make_node("Mul", [f"{name}.steps", scale_name], [name]),
            ]
            del_constant(stored, name)
            stored.graph.node.extend(whole)
    tidy(stored)
    return stored


def share_tables(model: ModelProto) -> ModelProto:
    """Return a quantised graph in which a table that is also the weight of an int8 product is stored once, as bytes."""
    shared = copy(model)
    values = constants(shared)
    for name, table in _tables(shared).items():
        weight, scale = quantize_weight(table.T)
        for product in [node for node in shared.graph.node if node.op_type == "MatMulIntegerToFloat"]:
            if not np.array_equal(values[product.input[1]], weight):
                continue
            rows = add_constant(shared, f"{name}.int8", weight.T)
            scales = add_constant(shared, f"{name}.int8.scale", scale[:, None])
            # Runtimes turn it once, when they load the graph.
            shared.graph.node.append(helper.make_node("Transpose", [rows], [f"{name}.turned"], perm=[1, 0]))
            product.input[1] = f"{name}.turned"
            _look_up_rows(shared, name, rows, scales)
    tidy(shared)
    return shared


def gather_rows(model: ModelProto) -> ModelProto:
    """Return a graph that looks rows of a table up by Gather where it did so by GatherND with indices of one number."""
    changed = copy(model)
    values = constants(changed)
    makers = {name: node for node in changed.graph.node for name in node.output}
    for node in [node for node in changed.graph.node if node.op_type == "GatherND"]:
        index = makers.get(node.input[1])
        if attributes(node).get("batch_dims", 0) != 0 or index is None or index.op_type != "Unsqueeze":
            continue
        axes = values.get(index.input[1])
        if axes is None or axes.tolist() != [-1]:
            continue
        changed.graph.node.append(helper.make_node("Gather", [node.input[0], index.input[0]], node.output, axis=0))
        changed.graph.node.remove(node)
    tidy(changed)
    return changed


def del_constant(model: ModelProto, name: str) -> None:
    """Take a constant out, whose name another tensor is to have."""
    (found,) = [tensor for tensor in model.graph.initializer if tensor.name == name]
    model.graph.initializer.remove(found)


def _look_up_rows(model: ModelProto, table: str, rows: str, scales: str) -> None:
    """Let every Gather of a table read its rows as bytes, with their scales."""
    for node in [node for node in model.graph.node if node.op_type == "Gather" and node.input[0] == table]:
        index, output = node.input[1], node.output[0]
        model.graph.node.extend(
            (
                helper.make_node("Gather", [rows, index], [f"{output}.int8"], axis=0),
                helper.make_node("Cast", [f"{output}.int8"], [f"{output}.steps"], to=TensorProto.FLOAT),
                helper.make_node("Gather", [scales, index], [f"{output}.scale"], axis=0),
                helper.make_node("Mul", [f"{output}.steps", f"{output}.scale"], [output]),
            )
        )
        model.graph.node.remove(node)


def _tables(model: ModelProto) -> dict[str, NDArray[np.float32]]:
    """Return the large float32 constants [row, dim] of which some rows are looked up."""
    values = constants(model)
    found: dict[str, NDArray[np.float32]] = {}
    for node in model.graph.node:
        if node.op_type != "Gather" or attributes(node).get("axis", 0) != 0 or node.input[0] not in values:
            continue
        table = values[node.input[0]]
        if table.dtype == np.float32 and table.ndim == 2 and table.shape[1] > 1 and math.prod(table.shape) >= SMALLEST:
            found[node.input[0]] = table
    return found

"""Rewrites a graph's products with constant matrices to int8, so that no row's result depends on the other rows.

It does not know models: it looks for products, and is told how large their inputs become.

An activation x becomes round(x / s) + 128 as uint8, s a constant found by calibration and never a scale of the batch
at hand; a column of weights becomes int8 with a scale of its own. Weights keep within [-64, 64]: processors without
VNNI add two products of uint8 and int8 in 16 bits (vpmaddubsw), where 2 * 255 * 64 = 32640 fits and 2 * 255 * 127 does
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper

from regard.export.surgery.rewrite import add_constant, attributes, constants, copy, fold_constants, tidy, widths

ACTIVATION_STEPS = 127  # to either side of zero
ACTIVATION_ZERO = 128
WEIGHT_STEPS = 64
SMALLEST = 64  # columns or rows; smaller matrices cost more to quantise around than they save
CONTRIB = "com.microsoft"


class _Product(NamedTuple):
    """output = input @ weight + bias, as one node of a graph has it."""

    node: NodeProto
    input: str
    output: str
    weight: NDArray[np.float32]  # [in, out]
    bias: NDArray[np.float32]  # [out]


class _Table(NamedTuple):
    """A tensor whose rows are looked up."""

    entries: NDArray[np.float32]  # [entry, dim]
    row: str  # name of the tensor of row numbers


def prepare(model: ModelProto) -> ModelProto:
    """Return an equal graph in which every large constant matrix meets a single input, not several laid side by side.

    Inputs that were concatenated have their own ranges, and each can share its quantised form with other products.
    """
    prepared = copy(model)
    fold_constants(prepared)
    width = widths(prepared)
    makers = {name: node for node in prepared.graph.node for name in node.output}
    for product in _products(prepared):
        maker = makers.get(product.input)
        if maker is None or maker.op_type != "Concat":
            continue
        if sum(width.get(name, 0) for name in maker.input) != product.weight.shape[0]:
            continue
        terms: list[str] = []
        start = 0
        for index, name in enumerate(maker.input):
            term = f"{product.output}.part{index}"
            rows = product.weight[start : start + width[name]]
            inputs = [name, add_constant(prepared, f"{term}.weight", rows)]
            if index == 0 and product.node.op_type == "Gemm":
                inputs.append(add_constant(prepared, f"{term}.bias", product.bias))
            prepared.graph.node.append(helper.make_node(product.node.op_type, inputs, [term], name=term))
            terms.append(term)
            start += width[name]
        prepared.graph.node.remove(product.node)
        _sum(prepared, terms, product.output)
    tidy(prepared)
    return prepared


def observed(model: ModelProto) -> list[str]:
    """Return the names of the tensors of a prepared graph whose ranges `quantize` must be told."""
    tables = _tables(model)
    return sorted({product.input for product in _products(model)} - set(tables))


def quantize(model: ModelProto, ranges: Mapping[str, float]) -> ModelProto:
    """Return a prepared graph with its products in int8.

    ranges has, for every name of `observed`, the largest absolute value that is told apart; larger ones are cut off
    there. Products of the same input become one. Raises KeyError for a missing range.
    """
    quantized = copy(model)
    tables = _tables(quantized)
    rectified = {node.output[0]: node.input[0] for node in quantized.graph.node if node.op_type == "Relu"}
    together: dict[str, list[_Product]] = {}
    for product in _products(quantized):
        together.setdefault(product.input, []).append(product)
    for name, products in together.items():
        for product in products:
            quantized.graph.node.remove(product.node)
        largest = np.abs(tables[name].entries).max() if name in tables else ranges[name]
        # What is never negative has all bytes for itself.
        steps, zero = (255, 0) if name in rectified else (ACTIVATION_STEPS, ACTIVATION_ZERO)
        scale = np.array(max(float(largest), np.finfo(np.float32).tiny) / steps, np.float32)
        add_constant(quantized, f"{name}.scale", scale)
        add_constant(quantized, f"{name}.zero", np.array(zero, np.uint8))
        if name in tables:
            # An entry is quantised once for all, not every time that it is looked up.
            entries = np.clip(np.rint(tables[name].entries / scale) + ACTIVATION_ZERO, 0, 255).astype(np.uint8)
            inputs = [add_constant(quantized, f"{name}.table", entries), tables[name].row]
            quantized.graph.node.append(helper.make_node("Gather", inputs, [f"{name}.uint8"], axis=0))
        else:
            # Where bytes begin at 0, quantising cuts negative numbers off by itself.
            inputs = [rectified.get(name, name), f"{name}.scale", f"{name}.zero"]
            quantized.graph.node.append(helper.make_node("QuantizeLinear", inputs, [f"{name}.uint8"]))
        _append_product(quantized, name, products)
    if CONTRIB not in {opset.domain for opset in quantized.opset_import}:
        quantized.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    tidy(quantized)
    return quantized


def quantize_weight(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return weight [in, out] as int8 within [-64, 64] and the scale of each column [out]."""
    scale = np.maximum(np.abs(weight).max(axis=0) / WEIGHT_STEPS, np.finfo(np.float32).tiny).astype(np.float32)
    return np.clip(np.rint(weight / scale), -WEIGHT_STEPS, WEIGHT_STEPS).astype(np.int8), scale


def _products(model: ModelProto) -> list[_Product]:
    values = constants(model)
    found: list[_Product] = []
    for node in model.graph.node:
        if node.op_type not in ("Gemm", "MatMul") or node.input[1] not in values or node.input[0] in values:
            continue
        settings = attributes(node)
        if settings.get("transA") or settings.get("alpha", 1.0) != 1.0 or settings.get("beta", 1.0) != 1.0:
            continue
        weight = values[node.input[1]]
        if settings.get("transB"):
            weight = weight.T
        if weight.ndim != 2 or min(weight.shape) < SMALLEST:
            continue
        bias = np.zeros(weight.shape[1], np.float32)
        if len(node.input) > 2:
            if node.input[2] not in values or values[node.input[2]].shape != bias.shape:
                continue
            bias = values[node.input[2]]
        found.append(_Product(node, node.input[0], node.output[0], weight, bias))
    return found


def _append_product(model: ModelProto, name: str, products: list[_Product]) -> None:
    weight, weight_scale = quantize_weight(np.concatenate([product.weight for product in products], axis=1))
    inputs = [
        f"{name}.uint8",
        add_constant(model, f"{name}.product.weight", weight),
        f"{name}.scale",
        add_constant(model, f"{name}.product.scale", weight_scale),
        f"{name}.zero",
        "",  # weights are symmetric around 0
        add_constant(model, f"{name}.product.bias", np.concatenate([product.bias for product in products])),
    ]
    outputs = [product.output for product in products]
    whole = outputs[0] if len(outputs) == 1 else f"{name}.product"
    model.graph.node.append(helper.make_node("MatMulIntegerToFloat", inputs, [whole], domain=CONTRIB))
    if len(outputs) > 1:
        sizes = np.array([product.weight.shape[1] for product in products], np.int64)
        split = [whole, add_constant(model, f"{name}.product.sizes", sizes)]
        model.graph.node.append(helper.make_node("Split", split, outputs, axis=-1))


def _tables(model: ModelProto) -> dict[str, _Table]:
    """Return the inputs of products that are rows of a constant table, perhaps times a constant number."""
    values = constants(model)
    makers = {name: node for node in model.graph.node for name in node.output}
    found: dict[str, _Table] = {}
    for name in {product.input for product in _products(model)}:
        maker = makers.get(name)
        factor: NDArray[Any] = np.array(1.0, np.float32)
        if maker is not None and maker.op_type == "Mul":
            by = values.get(maker.input[1])
            if by is None or by.size != 1:
                continue
            factor = by.reshape(())
            maker = makers.get(maker.input[0])
        if maker is None or maker.op_type != "Gather" or maker.input[0] not in values:
            continue
        if attributes(maker).get("axis", 0) == 0:
            found[name] = _Table(values[maker.input[0]] * factor, maker.input[1])
    return found


def _sum(model: ModelProto, terms: Iterable[str], output: str) -> None:
    first, *rest = terms
    for index, term in enumerate(rest):
        last = index == len(rest) - 1
        total = output if last else f"{output}.sum{index}"
        model.graph.node.append(helper.make_node("Add", [first, term], [total]))
        first = total

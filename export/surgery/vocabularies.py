"""Lets a step score the tokens of one target language alone, a shortlist, which is less work than scoring all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from regard.contract.model_ports import ModelPorts
from regard.export.errors import GraphError
from regard.export.surgery.rewrite import add_constant, attributes, copy, tidy

Vocabularies = Mapping[str, NDArray[np.int64]]


def collect_tokens(
    targets: Mapping[str, Iterable[Sequence[int]]], *, always: Iterable[int], never: Iterable[int], predictable: int
) -> dict[str, NDArray[np.int64]]:
    """Return the ids that targets of each language are made of, ascending, of those that can be predicted.

    Args:
        targets: ids of many targets, by language.
        always: ids that every language gets, so that any name can be spelt.
        never: ids that are never generated.
        predictable: ids from there on cannot be predicted.
    """
    collected: dict[str, NDArray[np.int64]] = {}
    for language, sentences in targets.items():
        used = np.zeros(predictable, dtype=np.bool_)
        used[[token for token in always if token < predictable]] = True
        for sentence in sentences:
            used[[token for token in sentence if token < predictable]] = True
        used[list(never)] = False
        collected[language] = np.flatnonzero(used).astype(np.int64)
    return collected


def score_vocabularies(step: ModelProto, ports: ModelPorts) -> ModelProto:
    """Return a step with the scores of every target vocabulary beside those of all tokens.

    Each has a product of its own, with those columns of the one matrix that its tokens need: runtimes cut them out when
    they load the graph. The input `scored_rows` says how many rows each product gets, so that those without cost
    nothing.

    Raises GraphError if the scores are not the LogSoftmax of one product with constants.
    """
    scored = copy(step)
    makers = {name: node for node in scored.graph.node for name in node.output}
    softmax = makers.get("scores")
    product = None if softmax is None else makers.get(softmax.input[0])
    if softmax is None or softmax.op_type != "LogSoftmax" or product is None:
        raise GraphError("The scores of the step are not the LogSoftmax of a product.")
    (rows,) = [port for port in ports.step.inputs if port.role == "scored_rows"]
    scored.graph.input.append(helper.make_tensor_value_info(rows.name, TensorProto.INT64, rows.axes))
    zero = add_constant(scored, f"{rows.name}.zero", np.array([0]))
    for place, (name, columns) in enumerate(
        zip(ports.scores, (None, *ports.target_vocabularies.values()), strict=True)
    ):
        start, end = (add_constant(scored, f"{name}.place{n}", np.array([place + n])) for n in (0, 1))
        some = helper.make_node("Slice", [rows.name, start, end], [f"{name}.rows"])
        states = helper.make_node("Slice", [product.input[0], zero, f"{name}.rows", zero], [f"{name}.states"])
        scored.graph.node.extend((some, states))
        inputs = [f"{name}.states", *product.input[1:]]
        if columns is not None:
            chosen = add_constant(scored, f"{name}.tokens", columns.astype(np.int32))
            for index, axis in _by_token(product).items():
                if index >= len(product.input):  # a product without a bias
                    continue
                cut = f"{name}.{index}"
                gather = helper.make_node("Gather", [product.input[index], chosen], [cut], axis=axis)
                scored.graph.node.append(gather)
                inputs[index] = cut
            scored.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", len(columns)]))
        scored.graph.node.append(
            helper.make_node(product.op_type, inputs, [f"{name}.logits"], domain=product.domain, **attributes(product))
        )
        scored.graph.node.append(helper.make_node("LogSoftmax", [f"{name}.logits"], [name], axis=1))
    scored.graph.node.remove(product)
    scored.graph.node.remove(softmax)
    tidy(scored)
    return scored


def _by_token(product: NodeProto) -> dict[int, int]:
    """Return the inputs of a product that have an entry for each token, and the axis on which they have it."""
    match product.op_type:
        case "Gemm":
            return {1: 0 if attributes(product).get("transB") else 1, 2: 0}
        case "MatMulIntegerToFloat":
            return {1: 1, 3: 0, 6: 0}
        case other:
            raise GraphError(f"The scores are made by {other}, of which no columns can be chosen.")

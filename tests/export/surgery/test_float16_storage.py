"""Storing as float16 loses nothing that was not rounded before, and refuses what float16 cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper
from torch import nn

from regard.export.errors import GraphError
from regard.export.parity.runtime import GraphSession
from regard.export.surgery.storage import round_weights, store_as_float16


def tied() -> ModelProto:
    """Return y = table[row] @ head.T, where head is the first rows of the table."""
    table = np.random.default_rng(1).normal(size=(40, 16)).astype(np.float16).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "row"], ["entry"]),
            helper.make_node("Gemm", ["entry", "head"], ["y"], transB=1),
        ],
        "tied",
        [helper.make_tensor_value_info("row", TensorProto.INT64, ["batch"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 24])],
        [numpy_helper.from_array(table[:24], "head"), numpy_helper.from_array(table, "table")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_stored_graph_gives_the_same_values() -> None:
    rows = {"row": np.array([0, 39, 7])}
    before, after = (
        GraphSession(model.SerializeToString(), what="tied").run(rows) for model in (tied(), store_as_float16(tied()))
    )
    np.testing.assert_array_equal(before["y"], after["y"])


def test_shared_rows_are_stored_once_in_half_the_bytes() -> None:
    stored = store_as_float16(tied())
    assert sum(len(tensor.raw_data) for tensor in stored.graph.initializer) < 40 * 16 * 2 + 64


def test_weight_that_would_lose_something_stays_float32() -> None:
    model = tied()
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((24, 16), 0.1, np.float32), "head"))
    stored = {tensor.name: tensor.data_type for tensor in store_as_float16(model).graph.initializer}
    assert stored == {"head": TensorProto.FLOAT, "table.float16": TensorProto.FLOAT16}


@pytest.mark.parametrize("value", [1e6, torch.inf, torch.nan])
def test_value_beyond_float16_is_refused_by_name(value: float) -> None:
    layer = nn.Linear(3, 3)
    with torch.no_grad():
        layer.weight[1, 2] = value
    with pytest.raises(GraphError, match="weight has a value"):
        round_weights(layer)


def test_rounded_weights_are_what_float16_holds() -> None:
    layer = nn.Linear(3, 3)
    round_weights(layer)
    for parameter in layer.parameters():
        assert torch.equal(parameter, parameter.half().float())

"""Graphs that load and run but compute something else, or depend on other files, are refused (X04, X08)."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from regard.contract.model_ports import GraphPorts
from regard.contract.ports import Port
from regard.export.errors import GraphError
from regard.export.surgery.checks import check_graph

GRU_PORTS = GraphPorts(
    inputs=(
        Port(name="x", role="source", dtype="float32", axes=("source", "batch", 2)),
        Port(name="length", role="source_length", dtype="int64", axes=("batch",)),
    ),
    outputs=(Port(name="y", role="memory", dtype="float32", axes=("source", 1, "batch", 3)),),
)


def gru(
    *, lengths: bool = True, batch: str | int = "batch", domain: str = "", linear_before_reset: int | None = None
) -> ModelProto:
    """Return a graph of one GRU of 2 inputs and 3 units."""
    nodes = [
        helper.make_node("Cast", ["length"], ["length32"], to=TensorProto.INT32),
        helper.make_node("GRU", ["x", "w", "r", "", "length32" if lengths else ""], ["y"], "reader", hidden_size=3),
    ]
    nodes[1].domain = domain
    if linear_before_reset is not None:
        nodes[1].attribute.append(helper.make_attribute("linear_before_reset", linear_before_reset))
    graph = helper.make_graph(
        nodes,
        "gru",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["source", batch, 2]),
            helper.make_tensor_value_info("length", TensorProto.INT64, [batch]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["source", 1, batch, 3])],
        [
            numpy_helper.from_array(np.ones((1, 9, 2), np.float32), "w"),
            numpy_helper.from_array(np.ones((1, 9, 3), np.float32), "r"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_gru_as_torch_computes_it_is_accepted() -> None:
    check_graph(gru(linear_before_reset=1), GRU_PORTS)


@pytest.mark.parametrize("model", [gru(), gru(linear_before_reset=0)], ids=["absent", "0"])
def test_gru_that_resets_before_the_product_is_refused(model: ModelProto) -> None:
    with pytest.raises(GraphError, match="reader resets before the product"):
        check_graph(model, GRU_PORTS)


def test_gru_without_lengths_is_refused() -> None:
    with pytest.raises(GraphError, match="read padding as words"):
        check_graph(gru(lengths=False, linear_before_reset=1), GRU_PORTS)


def lstm(*, lengths: bool = True, input_forget: int | None = None) -> ModelProto:
    """Return a graph of one LSTM of 2 inputs and 3 units."""
    model = gru(lengths=lengths)
    reader = model.graph.node[1]
    reader.op_type = "LSTM"
    if input_forget is not None:
        reader.attribute.append(helper.make_attribute("input_forget", input_forget))
    del model.graph.initializer[:]
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ones((1, 12, size), np.float32), name) for name, size in (("w", 2), ("r", 3))
    )
    return model


@pytest.mark.parametrize("model", [lstm(), lstm(input_forget=0)], ids=["absent", "0"])
def test_lstm_as_torch_computes_it_is_accepted(model: ModelProto) -> None:
    check_graph(model, GRU_PORTS)


def test_lstm_without_lengths_is_refused() -> None:
    with pytest.raises(GraphError, match="reader has no sequence_lens: it would read padding as words"):
        check_graph(lstm(lengths=False), GRU_PORTS)


def test_lstm_that_lets_in_what_it_forgets_is_refused() -> None:
    with pytest.raises(GraphError, match="reader has one gate for what enters and what is forgotten"):
        check_graph(lstm(input_forget=1), GRU_PORTS)


def test_axis_that_became_a_number_is_refused() -> None:
    with pytest.raises(GraphError, match="should have the input"):
        check_graph(gru(batch=3, linear_before_reset=1), GRU_PORTS)


def test_operator_of_another_domain_is_refused_unless_allowed() -> None:
    model = gru(linear_before_reset=1, domain="com.microsoft")
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(GraphError, match=r"of the domain com\.microsoft"):
        check_graph(model, GRU_PORTS)
    check_graph(model, GRU_PORTS, domains=frozenset({"", "com.microsoft"}))


def test_weights_in_a_file_of_their_own_are_refused() -> None:
    model = gru(linear_before_reset=1)
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.data")
    with pytest.raises(GraphError, match="w lies outside the graph's file"):
        check_graph(model, GRU_PORTS)


def test_missing_and_surplus_ports_are_refused() -> None:
    model = gru(linear_before_reset=1)
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]))
    with pytest.raises(GraphError, match="2 inputs"):
        check_graph(model, GRU_PORTS)
    del model.graph.input[:]
    with pytest.raises(GraphError, match="should have the input"):
        check_graph(model, GRU_PORTS)

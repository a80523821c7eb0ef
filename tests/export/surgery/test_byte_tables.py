"""Tables of embeddings are stored as bytes, and rounding what was rounded changes nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import ModelProto, TensorProto, helper, numpy_helper

from regard.export.parity.runtime import GraphSession
from regard.export.surgery.quantize import quantize
from regard.export.surgery.tables import gather_rows, quantize_rows, round_rows, share_tables, store_tables

TABLE = np.random.default_rng(1).normal(size=(90, 64)).astype(np.float32)


def graph(*, product: bool) -> ModelProto:
    """Return y = table[row], and z = y @ table.T if asked for."""
    nodes = [helper.make_node("Gather", ["table", "row"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])]
    if product:
        nodes.append(helper.make_node("Gemm", ["x", "table"], ["z"], transB=1))
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 90]))
    inputs = [
        helper.make_tensor_value_info("row", TensorProto.INT64, ["batch"]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64]),
    ]
    made = helper.make_graph(nodes, "table", inputs, outputs, [numpy_helper.from_array(TABLE, "table")])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(model: ModelProto) -> dict[str, np.ndarray]:
    row = np.array([3, 89, 0])
    x = np.random.default_rng(2).uniform(-1, 1, size=(3, 64)).astype(np.float32)
    return GraphSession(model.SerializeToString(), what="a table").run({"row": row, "x": x})


@given(arrays.arrays(np.float32, (4, 6), elements=st.floats(-1e3, 1e3, width=32)))
@settings(deadline=None)
def test_rounding_twice_is_rounding_once(table: np.ndarray) -> None:
    # Numbers so small that their scale has fewer bits than float32 promises are no weights.
    table = np.where(np.abs(table) < 1e-20, 0, table).astype(np.float32)
    once = round_rows(table)
    np.testing.assert_array_equal(round_rows(once), once)
    assert (np.abs(once - table).max(axis=1) <= np.abs(table).max(axis=1) / 250).all()


def test_rows_that_are_looked_up_are_those_of_the_rounded_table() -> None:
    stored = store_tables(graph(product=False))
    np.testing.assert_array_equal(run(stored)["y"], round_rows(TABLE)[[3, 89, 0]])
    (table,) = [tensor for tensor in stored.graph.initializer if list(tensor.dims) == [90, 64]]
    assert table.data_type == TensorProto.INT8


def test_table_that_is_multiplied_with_too_is_stored_once() -> None:
    made = run(store_tables(graph(product=True)))
    x = np.random.default_rng(2).uniform(-1, 1, size=(3, 64)).astype(np.float32)
    np.testing.assert_array_equal(made["y"], round_rows(TABLE)[[3, 89, 0]])
    np.testing.assert_allclose(made["z"], x @ round_rows(TABLE).T, atol=1e-4)


def test_int8_product_and_look_up_share_their_bytes() -> None:
    quantized = quantize(graph(product=True), {"x": 1.0})
    shared = share_tables(quantized)
    np.testing.assert_array_equal(run(shared)["z"], run(quantized)["z"])
    np.testing.assert_allclose(run(shared)["y"], TABLE[[3, 89, 0]], atol=np.abs(TABLE).max() / 64)
    assert sum(90 in tensor.dims and 64 in tensor.dims for tensor in shared.graph.initializer) == 1


def test_scale_of_a_row_leaves_its_largest_number_whole() -> None:
    rows, _ = quantize_rows(TABLE)
    assert (np.abs(rows.astype(np.int64)).max(axis=1) == 127).all()


def test_rows_are_looked_up_alike_whichever_operator_did_it() -> None:
    table = numpy_helper.from_array(TABLE, "table")
    nodes = [
        helper.make_node("Unsqueeze", ["row", "last"], ["index"]),
        helper.make_node("GatherND", ["table", "index"], ["y"]),
        helper.make_node("Identity", ["x"], ["z"]),
    ]
    made = graph(product=True)
    del made.graph.node[:], made.graph.initializer[:]
    made.graph.node.extend(nodes)
    made.graph.output[1].type.tensor_type.shape.dim[1].dim_value = 64
    made.graph.initializer.extend([table, numpy_helper.from_array(np.array([-1]), "last")])
    changed = gather_rows(made)
    assert [node.op_type for node in changed.graph.node] == ["Gather", "Identity"]
    np.testing.assert_array_equal(run(changed)["y"], run(made)["y"])


def test_a_column_of_numbers_is_no_table_to_store_as_bytes() -> None:
    made = graph(product=False)
    column = np.random.default_rng(3).normal(size=(5000, 1)).astype(np.float32)
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(column, "table"))
    made.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    assert store_tables(made) == made

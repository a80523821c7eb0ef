"""int8 products: exact on processors without VNNI, and the same for a row whatever the other rows are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import ModelProto, TensorProto, helper, numpy_helper

from regard.export.parity.runtime import GraphSession
from regard.export.surgery import quantize
from regard.export.surgery.quantize import ACTIVATION_STEPS, ACTIVATION_ZERO, WEIGHT_STEPS
from regard.export.surgery.rewrite import constants

MakeProduct = Callable[[np.ndarray, np.ndarray], ModelProto]


def run(model: ModelProto, **inputs: np.ndarray) -> np.ndarray:
    return GraphSession(model.SerializeToString(), what="a product").run(inputs)["y"]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_largest_activations_and_weights_do_not_saturate(product: MakeProduct, sign: float) -> None:
    # Every pair of products is as large as can be: this is what overflows 16 bits where weights use all of int8.
    weight = np.full((512, 96), sign, np.float32)
    x = np.full((33, 512), 2.0, np.float32)
    x[1::2] = -2.0
    made = quantize.quantize(product(weight, np.zeros(96, np.float32)), {"x": 2.0})
    exact = x.astype(np.float64) @ weight.astype(np.float64)
    np.testing.assert_allclose(run(made, x=x), exact, rtol=1e-6)


def test_products_are_those_of_exact_integers(product: MakeProduct) -> None:
    rng = np.random.default_rng(1)
    weight = rng.choice([-1.0, 1.0, 0.5], size=(512, 96)).astype(np.float32)
    x = rng.choice([-3.0, 3.0, 2.9, 0.0], size=(37, 512)).astype(np.float32)
    made = quantize.quantize(product(weight, np.zeros(96, np.float32)), {"x": 3.0})
    integers, scale = quantize.quantize_weight(weight)
    steps = np.rint(x / np.float32(3.0 / ACTIVATION_STEPS)).astype(np.int64)
    exact = (steps @ integers.astype(np.int64)) * np.float64(np.float32(3.0 / ACTIVATION_STEPS)) * scale
    np.testing.assert_allclose(run(made, x=x), exact, rtol=1e-5, atol=1e-4)


@given(arrays.arrays(np.float32, (5, 3), elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False)))
@settings(deadline=None)
def test_two_products_of_any_weights_fit_into_16_bits(weight: np.ndarray) -> None:
    integers, scale = quantize.quantize_weight(weight)
    assert 2 * 255 * int(np.abs(integers.astype(np.int64)).max()) <= 2**15 - 1
    # float32 has no numbers a step below the smallest that it has.
    assert np.abs(integers * scale - weight).max() <= np.abs(weight).max() / WEIGHT_STEPS + np.finfo(np.float32).tiny
    assert (scale > 0).all()


def test_row_alone_equals_row_in_a_batch(product: MakeProduct) -> None:
    rng = np.random.default_rng(2)
    made = quantize.quantize(
        product(rng.normal(size=(256, 320)).astype(np.float32), np.ones(320, np.float32)), {"x": 4.0}
    )
    # One row is a thousand times as large: a scale of the whole batch would flatten all others.
    x = rng.normal(size=(64, 256)).astype(np.float32)
    x[7] *= 1000
    together = run(made, x=x)
    for row in range(64):
        np.testing.assert_array_equal(run(made, x=x[row : row + 1])[0], together[row])


def test_values_beyond_the_range_are_cut_off_there(product: MakeProduct) -> None:
    made = quantize.quantize(product(np.eye(64, dtype=np.float32), np.zeros(64, np.float32)), {"x": 1.0})
    y = run(made, x=np.full((1, 64), 50.0, np.float32))
    np.testing.assert_allclose(y, 1.0, rtol=0.01)


def test_products_of_one_input_become_one() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, 64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["a"]),
            helper.make_node("MatMul", ["x", "second"], ["b"]),
            helper.make_node("Sub", ["a", "b"], ["y"]),
        ],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    made = quantize.quantize(model, {"x": 3.0})
    operators = sorted(node.op_type for node in made.graph.node)
    assert operators == ["MatMulIntegerToFloat", "QuantizeLinear", "Split", "Sub"]
    x = rng.uniform(-3, 3, size=(5, 64)).astype(np.float32)
    np.testing.assert_allclose(run(made, x=x), x @ (first - second), atol=1.0)


def lookup_and_concatenate() -> ModelProto:
    """Return y = [x, 3 * table[row]] @ weight + bias, as a decoder's readout is."""
    rng = np.random.default_rng(4)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "row"], ["entry"]),
            helper.make_node("Mul", ["entry", "three"], ["scaled"]),
            helper.make_node("Concat", ["x", "scaled"], ["both"], axis=-1),
            helper.make_node("Gemm", ["both", "weight", "bias"], ["y"], transB=1),
        ],
        "readout",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64]),
            helper.make_tensor_value_info("row", TensorProto.INT64, ["batch"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
        [
            numpy_helper.from_array(rng.normal(size=(9, 64)).astype(np.float32), "table"),
            numpy_helper.from_array(np.array(3.0, np.float32), "three"),
            numpy_helper.from_array(rng.normal(size=(64, 128)).astype(np.float32), "weight"),
            numpy_helper.from_array(rng.normal(size=64).astype(np.float32), "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]  half typed
    return model


def test_preparing_changes_no_value() -> None:
    model = lookup_and_concatenate()
    inputs = {"x": np.random.default_rng(5).normal(size=(4, 64)).astype(np.float32), "row": np.array([0, 8, 3, 3])}
    prepared = quantize.prepare(model)
    assert "Concat" not in {node.op_type for node in prepared.graph.node}
    np.testing.assert_allclose(run(prepared, **inputs), run(model, **inputs), atol=1e-4)


def test_table_is_quantised_beforehand_and_needs_no_calibration() -> None:
    prepared = quantize.prepare(lookup_and_concatenate())
    assert quantize.observed(prepared) == ["x"]
    made = quantize.quantize(prepared, {"x": 3.0})
    tables = [value for value in constants(made).values() if value.shape == (9, 64)]
    assert [table.dtype for table in tables] == [np.uint8]
    extremes = {ACTIVATION_ZERO + ACTIVATION_STEPS, ACTIVATION_ZERO - ACTIVATION_STEPS}
    assert extremes & {int(tables[0].max()), int(tables[0].min())}
    inputs = {"x": np.random.default_rng(6).uniform(-3, 3, (4, 64)).astype(np.float32), "row": np.array([0, 8, 3, 3])}
    np.testing.assert_allclose(run(made, **inputs), run(prepared, **inputs), atol=2.0)


def test_what_is_cut_off_at_zero_is_cut_off_by_its_bytes() -> None:
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["positive"]), helper.make_node("MatMul", ["positive", "weight"], ["y"])],
        "rectified",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
        [numpy_helper.from_array(weight, "weight")],
    )
    made = quantize.quantize(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), {"positive": 3.0}
    )
    assert sorted(node.op_type for node in made.graph.node) == ["MatMulIntegerToFloat", "QuantizeLinear"]
    x = rng.uniform(-3, 3, size=(5, 64)).astype(np.float32)
    np.testing.assert_allclose(run(made, x=x), np.maximum(x, 0) @ weight, atol=0.7)
    np.testing.assert_array_equal(run(made, x=np.minimum(x, 0)), np.zeros((5, 64), np.float32))

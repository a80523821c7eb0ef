"""Graphs that read pictures are opened, tried and run as a bundle promises, by the runtime that serves them."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.server.caption_fakes import (
    CELLS,
    COLUMNS,
    QUARTERS,
    ROWS,
    SIDE,
    VOCABULARY,
    picture,
    write_caption_bundle,
)
from tests.server.engine_fakes import FakeObserver
from tests.server.serving import PATIENCE

from regard.contract.bundle import LoadedBundle, load_bundle
from regard.contract.ports import Port
from regard.server.engine.engine import Engine, EngineSettings, Outcome
from regard.server.errors import BundleError
from regard.server.request import DecodeResult
from regard.server.runtime.graph_check import describe
from regard.server.runtime.session import OpenModel, open_model

CELL = SIDE // ROWS
WORD, END = 4, 3
ENCODER_ATTENTION = Port(
    name="attention.encoder",
    role="encoder_attention",
    dtype="float32",
    axes=("batch", 1, 1, CELLS, CELLS),
)


def tensor(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["batch", *shape])


def constant(name: str, kind: int, shape: list[int], values: list[float]) -> onnx.TensorProto:
    return helper.make_tensor(name, kind, shape, values)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: list[onnx.TensorProto],
) -> None:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(model.SerializeToString())


def write_encode(path: Path, *, looks_at_itself: bool) -> None:
    """Mean brightness of the red channel of each cell; the upper left four of them are its colours."""
    node = helper.make_node
    nodes = [
        node("Cast", ["pixels"], ["real"], to=TensorProto.FLOAT),
        node("Transpose", ["real"], ["planes"], perm=[0, 3, 1, 2]),
        node("AveragePool", ["planes"], ["cells"], kernel_shape=[CELL, CELL], strides=[CELL, CELL]),
        node("Slice", ["cells", "zero", "one", "one"], ["red"]),
        node("Reshape", ["red", "flat"], ["memory.looks"]),
        node("Slice", ["memory.looks", "zero", "four", "one"], ["few"]),
        node("Cast", ["few"], ["memory.colours"], to=TensorProto.INT64),
        node("ReduceSum", ["memory.colours", "one"], ["total"], keepdims=0),
        node("Sub", ["total", "total"], ["state.position"]),
    ]
    outputs = [
        tensor("memory.looks", TensorProto.FLOAT, CELLS),
        tensor("memory.colours", TensorProto.INT64, QUARTERS),
        tensor("state.position", TensorProto.INT64),
    ]
    if looks_at_itself:
        nodes += [
            node("Reshape", ["memory.looks", "column"], ["tall"]),
            node("Reshape", ["memory.looks", "line"], ["wide"]),
            node("MatMul", ["tall", "wide"], ["attention.encoder"]),
        ]
        outputs.append(tensor("attention.encoder", TensorProto.FLOAT, 1, 1, CELLS, CELLS))
    constants = [
        constant("zero", TensorProto.INT64, [1], [0]),
        constant("one", TensorProto.INT64, [1], [1]),
        constant("four", TensorProto.INT64, [1], [QUARTERS]),
        constant("flat", TensorProto.INT64, [2], [-1, CELLS]),
        constant("column", TensorProto.INT64, [5], [-1, 1, 1, CELLS, 1]),
        constant("line", TensorProto.INT64, [5], [-1, 1, 1, 1, CELLS]),
    ]
    # Slices are along the axis 1.
    for sliced in nodes:
        if sliced.op_type == "Slice":
            sliced.input.insert(3, "one")
    save(path, nodes, [tensor("pixels", TensorProto.UINT8, SIDE, SIDE, 3)], outputs, constants)


def write_step(path: Path) -> None:
    """One word three times as likely as the end; attention by brightness."""
    scores = np.full(VOCABULARY, -50.0)
    scores[[WORD, END]] = np.log([0.75, 0.25])
    node = helper.make_node
    nodes = [
        node("Cast", ["token"], ["real"], to=TensorProto.FLOAT),
        node("Sub", ["real", "real"], ["nothing"]),
        node("Reshape", ["nothing", "upright"], ["rows"]),
        node("Add", ["rows", "constant"], ["scores"]),
        node("Add", ["state.position", "one"], ["next.state.position"]),
        node("Softmax", ["memory.looks"], ["shares"], axis=1),
        node("Reshape", ["shares", "maps"], ["attention"]),
    ]
    constants = [
        constant("upright", TensorProto.INT64, [2], [-1, 1]),
        constant("constant", TensorProto.FLOAT, [1, VOCABULARY], scores.tolist()),
        constant("one", TensorProto.INT64, [1], [1]),
        constant("maps", TensorProto.INT64, [4], [-1, 1, 1, CELLS]),
    ]
    inputs = [
        tensor("token", TensorProto.INT64),
        tensor("state.position", TensorProto.INT64),
        tensor("memory.looks", TensorProto.FLOAT, CELLS),
        tensor("memory.colours", TensorProto.INT64, QUARTERS),
    ]
    outputs = [
        tensor("scores", TensorProto.FLOAT, VOCABULARY),
        tensor("next.state.position", TensorProto.INT64),
        tensor("attention", TensorProto.FLOAT, 1, 1, CELLS),
    ]
    save(path, nodes, inputs, outputs, constants)


def bundle_with_graphs(root: Path, *, looks_at_itself: bool = False) -> LoadedBundle:
    """A bundle whose manifest was read before its graphs were written."""
    bundle = load_bundle(write_caption_bundle(root))
    write_encode(bundle.encode.path, looks_at_itself=looks_at_itself)
    write_step(bundle.step.path)
    if looks_at_itself:
        encode = dataclasses.replace(bundle.encode, outputs=(*bundle.encode.outputs, ENCODER_ATTENTION))
        bundle = dataclasses.replace(bundle, encode=encode)
    return bundle


def opened(bundle: LoadedBundle) -> OpenModel:
    return open_model(bundle, device="cpu", intra_op_threads=1)


def test_pixels_become_memory_row_by_row_and_column_by_column(tmp_path: Path) -> None:
    pixels = np.zeros((2, SIDE, SIDE, 3), dtype=np.uint8)
    pixels[1, :CELL, CELL : 2 * CELL, 0] = 200
    encoded = opened(bundle_with_graphs(tmp_path)).encode(pixels, np.array([CELLS, CELLS]))
    assert encoded["memory.looks"].shape == (2, CELLS)
    assert encoded["memory.looks"][1].tolist() == [0, 200] + [0] * (ROWS * COLUMNS - 2)


def test_what_the_encoder_looks_at_is_fetched_only_when_asked_for(tmp_path: Path) -> None:
    model = opened(bundle_with_graphs(tmp_path, looks_at_itself=True))
    pixels, length = np.full((2, SIDE, SIDE, 3), 3, dtype=np.uint8), np.array([CELLS, CELLS])
    encoded = model.encode(pixels, length)
    assert set(encoded) == {"memory.looks", "memory.colours", "state.position"}
    asked = model.encode(pixels, length, encoder_attention=True)
    assert set(asked) == {*encoded, "attention.encoder"}
    np.testing.assert_array_equal(asked["attention.encoder"], np.full((2, 1, 1, CELLS, CELLS), 9))


def test_a_graph_of_another_picture_size_than_promised_is_refused(tmp_path: Path) -> None:
    bundle = bundle_with_graphs(tmp_path)
    (pixels,) = bundle.encode.inputs
    wrong = dataclasses.replace(pixels, axes=("batch", SIDE, SIDE // 2, 3))
    with pytest.raises(BundleError, match="pixels has shape"):
        opened(dataclasses.replace(bundle, encode=dataclasses.replace(bundle.encode, inputs=(wrong,))))


def test_the_engine_captions_with_real_graphs(tmp_path: Path) -> None:
    bundle = bundle_with_graphs(tmp_path)
    model = opened(bundle)
    engine = Engine({bundle.key: model}, EngineSettings(), FakeObserver())
    engine.start()
    outcomes: list[Outcome] = []
    done = threading.Event()

    def take(_: int, outcome: Outcome) -> None:
        outcomes.append(outcome)
        done.set()

    asked = picture(3, no_repeat_ngram=1)
    try:
        engine.submit(bundle.key, [asked], take)
        assert done.wait(PATIENCE)
    finally:
        engine.stop(0.0)
    (result,) = outcomes
    assert isinstance(result, DecodeResult)
    (best,) = result.hypotheses
    assert best.tokens.tolist() == [WORD]
    assert best.alignment.shape == (1, describe(bundle).max_source_tokens)

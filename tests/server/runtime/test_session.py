"""Graphs are opened as promised or not at all, and nothing that could abort the process reaches them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tests.bundles import NULL
from tests.cuda_machines import break_cuda, hide_cuda
from tests.server.engine_fakes import FakeObserver, request
from tests.server.serving import PATIENCE

from regard.contract.bundle import GraphSpec, LoadedBundle, Port, load_bundle
from regard.server.engine.engine import Engine, EngineSettings, Outcome
from regard.server.engine.rows import RowBuffers
from regard.server.errors import BundleError, DeviceUnavailable
from regard.server.request import DecodeResult
from regard.server.runtime.graph_check import describe
from regard.server.runtime.session import CPU, OpenModel, open_model


@pytest.fixture(scope="module")
def bundle() -> LoadedBundle:
    return load_bundle(NULL)


@pytest.fixture(scope="module")
def model(bundle: LoadedBundle) -> OpenModel:
    return open_model(bundle, device="cpu", intra_op_threads=1)


def buffers(model: OpenModel, *, capacity: int, width: int) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    sizes = {"batch": capacity, "source": width}

    def make(ports: tuple[Port, ...]) -> dict[str, NDArray[Any]]:
        return {
            port.name: np.zeros([axis if isinstance(axis, int) else sizes[axis] for axis in port.axes], port.dtype)
            for port in ports
        }

    return make(model.bundle.step.inputs), make(model.bundle.step.outputs)


def test_a_bound_step_reads_and_writes_the_first_rows_of_its_buffers_in_place(model: OpenModel) -> None:
    inputs, outputs = buffers(model, capacity=5, width=16)
    encoded = model.encode(np.full((3, 16), 4), np.array([16, 1, 7]))
    for name, value in encoded.items():
        inputs[name][:3] = value
    run = model.bind_step(inputs, outputs, 3)
    run()
    assert outputs["next.state.count"].ravel().tolist() == [1, 1, 1, 0, 0]
    inputs["state.count"][1] = 41
    run()
    assert outputs["next.state.count"].ravel().tolist() == [1, 42, 1, 0, 0]
    np.testing.assert_allclose(outputs["attention"].sum(axis=-1).ravel(), [1, 1, 1, 0, 0], atol=1e-6)


def test_a_step_that_copies_does_the_same(model: OpenModel) -> None:
    inputs, outputs = buffers(model, capacity=5, width=16)
    inputs["memory.weights"][:], inputs["memory.mask"][:] = 1 / 16, True
    device = OpenModel.__new__(OpenModel)
    device.__dict__.update(model.__dict__, provider="SomeDevice")
    run = device.bind_step(inputs, outputs, 2)
    inputs["state.count"][:] = 41
    run()
    assert outputs["next.state.count"].ravel().tolist() == [42, 42, 0, 0, 0]


@pytest.mark.parametrize(("shape", "lengths"), [((0, 16), []), ((1, 0), [0]), ((2, 16), [3, 0])])
def test_nothing_of_size_zero_reaches_the_encoder(model: OpenModel, shape: tuple[int, int], lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        model.encode(np.zeros(shape, dtype=np.int64), np.array(lengths, dtype=np.int64))


def test_nothing_of_size_zero_and_no_stray_buffer_is_bound(model: OpenModel) -> None:
    inputs, outputs = buffers(model, capacity=5, width=16)
    for rows in (0, 6):
        with pytest.raises(ValueError, match="cannot be stepped"):
            model.bind_step(inputs, outputs, rows)
    with pytest.raises(ValueError, match="cannot be stepped"):
        model.bind_step(*buffers(model, capacity=5, width=0), 1)
    with pytest.raises(ValueError, match="contiguous"):
        model.bind_step({**inputs, "memory.weights": inputs["memory.weights"].T.copy().T}, outputs, 1)
    with pytest.raises(ValueError, match="contiguous"):
        model.bind_step({**inputs, "token": inputs["token"].astype(np.int32)}, outputs, 1)


def with_buffer(bundle: LoadedBundle, path: Path, *, in_place: bool) -> LoadedBundle:
    """A model whose step writes each token to the next entry of a buffer, and says the entry before it."""
    value = helper.make_tensor_value_info
    ports = {
        "token": (TensorProto.INT64, ["batch"]),
        "state.tokens": (TensorProto.INT64, ["batch", "target"]),
        "state.position": (TensorProto.INT64, ["batch"]),
    }
    nodes = [
        helper.make_node("Shape", ["state.tokens"], ["room"], start=1, end=2),
        helper.make_node("Squeeze", ["room"], ["size"]),
        helper.make_node("Range", ["zero", "size", "one"], ["places"]),
        helper.make_node("Unsqueeze", ["state.position", "last"], ["here"]),
        helper.make_node("Unsqueeze", ["token", "last"], ["new"]),
        helper.make_node("Equal", ["places", "here"], ["written"]),
        helper.make_node("Where", ["written", "new", "state.tokens"], ["next.state.tokens"]),
        helper.make_node("Add", ["state.position", "one"], ["next.state.position"]),
        helper.make_node("OneHot", ["token", "columns", "chances"], ["scores"], axis=-1),
    ]
    constants = [
        helper.make_tensor("zero", TensorProto.INT64, [], [0]),
        helper.make_tensor("one", TensorProto.INT64, [], [1]),
        helper.make_tensor("last", TensorProto.INT64, [1], [1]),
        helper.make_tensor("columns", TensorProto.INT64, [1], [64]),
        helper.make_tensor("chances", TensorProto.FLOAT, [2], [-5.0, -0.1]),
    ]
    outputs = {
        "scores": (TensorProto.FLOAT, ["batch", 64]),
        **{f"next.{name}": entry for name, entry in ports.items() if name != "token"},
    }
    graph = helper.make_graph(
        nodes,
        "step",
        [value(name, *entry) for name, entry in ports.items()],
        [value(name, *entry) for name, entry in outputs.items()],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(made.SerializeToString())

    def spec(name: str, role: Any, dtype: str, *axes: str | int) -> Port:
        return Port(name=name, role=role, dtype=dtype, axes=axes)

    state = [("tokens", ("batch", "target")), ("position", ("batch",))]
    step = GraphSpec(
        path=path,
        inputs=(
            spec("token", "token", "int64", "batch"),
            *(spec(f"state.{name}", "state", "int64", *axes) for name, axes in state),
        ),
        outputs=(
            spec("scores", "scores", "float32", "batch", 64),
            *(spec(f"next.state.{name}", "state", "int64", *axes) for name, axes in state),
        ),
    )
    ports = dataclasses.replace(bundle.ports, layers=0, heads=0)
    return dataclasses.replace(bundle, step=step, ports=ports, state_in_place=in_place, alignment_heads=())


@pytest.mark.parametrize("in_place", [False, True])
def test_a_graph_with_a_buffer_keeps_what_rows_were_fed(bundle: LoadedBundle, tmp_path: Path, in_place: bool) -> None:
    opened = open_model(
        with_buffer(bundle, tmp_path / "step.onnx", in_place=in_place), device="cpu", intra_op_threads=1
    )
    rows = RowBuffers(opened, capacity=4, width=16, target=8)
    rows.append(np.array([2, 0, 1]), {}, bos_id=2)
    for step in range(5):
        rows.token[:3] = 10 * np.arange(1, 4) + step
        rows.step()
        assert rows.log_probs[:3].argmax(axis=1).tolist() == rows.token[:3].tolist()
    bound = rows.state.read["state.tokens"]
    assert bound[:3, :5].tolist() == [[10, 11, 12, 13, 14], [20, 21, 22, 23, 24], [30, 31, 32, 33, 34]]
    assert not bound[:, 5:].any()


def replaced(bundle: LoadedBundle, change: Callable[[tuple[Port, ...]], tuple[Port, ...]]) -> LoadedBundle:
    return dataclasses.replace(bundle, step=dataclasses.replace(bundle.step, inputs=change(bundle.step.inputs)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "tokens"}, "inputs are"),
        ({"dtype": np.dtype("int32")}, "token is tensor"),
        ({"axes": ("batch", 1)}, "token has shape"),
        ({"axes": (7,)}, "token has shape"),
    ],
)
def test_a_graph_with_other_ports_than_promised_is_refused(
    bundle: LoadedBundle, wrong: dict[str, Any], message: str
) -> None:
    def change(ports: tuple[Port, ...]) -> tuple[Port, ...]:
        return tuple(dataclasses.replace(port, **wrong) if port.role == "token" else port for port in ports)

    with pytest.raises(BundleError, match=message):
        open_model(replaced(bundle, change), device="cpu", intra_op_threads=1)


def test_a_state_that_grows_is_refused(bundle: LoadedBundle) -> None:
    def grow(ports: tuple[Port, ...]) -> tuple[Port, ...]:
        return tuple(
            dataclasses.replace(port, axes=("batch", "past")) if port.role == "state" else port for port in ports
        )

    with pytest.raises(BundleError, match="no buffer"):
        describe(replaced(bundle, grow))


def with_step(bundle: LoadedBundle, path: Path) -> LoadedBundle:
    spec = GraphSpec(path=path, inputs=bundle.step.inputs, outputs=bundle.step.outputs)
    return dataclasses.replace(bundle, step=spec)


def test_a_truncated_graph_is_refused_by_name(bundle: LoadedBundle, tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    path.write_bytes(bundle.step.path.read_bytes()[:-100])
    with pytest.raises(BundleError, match=r"half\.onnx"):
        open_model(with_step(bundle, path), device="cpu", intra_op_threads=1)


def test_a_graph_newer_than_the_runtime_is_refused_by_name(bundle: LoadedBundle, tmp_path: Path) -> None:
    graph = onnx.load_from_string(bundle.step.path.read_bytes())
    graph.opset_import[0].version = 99
    path = tmp_path / "new.onnx"
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(BundleError, match=r"new\.onnx"):
        open_model(with_step(bundle, path), device="cpu", intra_op_threads=1)


def test_a_graph_whose_outputs_have_other_shapes_than_promised_is_refused(bundle: LoadedBundle, tmp_path: Path) -> None:
    graph = onnx.load_from_string(bundle.step.path.read_bytes())
    # The scores of two rows become one row of twice the width, in a way that the runtime cannot foresee.
    for node in graph.graph.node:
        node.output[:] = ["flat" if name == "scores" else name for name in node.output]
    graph.graph.initializer.append(helper.make_tensor("all_else", TensorProto.INT64, [1], [-1]))
    graph.graph.node.extend(
        [
            helper.make_node("Shape", ["token"], ["count"]),
            helper.make_node("Div", ["count", "count"], ["one"]),
            helper.make_node("Concat", ["one", "all_else"], ["one_row"], axis=0),
            helper.make_node("Reshape", ["flat", "one_row"], ["scores"]),
        ]
    )
    path = tmp_path / "flat.onnx"
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(BundleError, match="its port promises"):
        open_model(with_step(bundle, path), device="cpu", intra_op_threads=1)


def test_cuda_that_is_not_there_is_an_error_and_auto_says_what_it_took(
    bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_cuda(monkeypatch)
    with pytest.raises(DeviceUnavailable, match="without CUDA"):
        open_model(bundle, device="cuda", intra_op_threads=1)
    assert open_model(bundle, device="auto", intra_op_threads=1).provider == CPU


def test_a_silent_fallback_of_the_runtime_is_noticed(bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    break_cuda(monkeypatch)
    with pytest.raises(DeviceUnavailable, match="device cuda"):
        open_model(bundle, device="cuda", intra_op_threads=1)
    assert open_model(bundle, device="auto", intra_op_threads=1).provider == CPU


def test_the_null_bundle_answers_through_the_engine(model: OpenModel) -> None:
    outcomes: dict[int, Outcome] = {}
    done = threading.Semaphore(0)

    def receive(index: int, outcome: Outcome) -> None:
        outcomes[index] = outcome
        done.release()

    engine = Engine({model.bundle.key: model}, EngineSettings(workers=2), FakeObserver())
    engine.start()
    requests = [request([4] * length + [3], beam_size=beam) for length in (1, 20, 100) for beam in (1, 4)]
    engine.submit(model.bundle.key, requests, receive)
    for _ in requests:
        assert done.acquire(timeout=PATIENCE)
    engine.stop(1.0)
    for index, asked in enumerate(requests):
        outcome = outcomes[index]
        assert isinstance(outcome, DecodeResult)
        best = outcome.hypotheses[0]
        length = min(2 * len(asked.source) + 10, 40)
        assert best.tokens.tolist() == [4] * length
        np.testing.assert_allclose(best.alignment, np.full((length, len(asked.source)), 1 / len(asked.source)))


def test_opening_a_model_leaves_nothing_at_home(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from regard.contract.bundle import load_bundle; "
        "from regard.server.runtime.session import open_model; "
        f"open_model(load_bundle(Path({str(NULL)!r})), device='cpu', intra_op_threads=1)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], env={**environment, "HOME": str(tmp_path)}, check=True, timeout=60)
    assert list(tmp_path.rglob("*")) == []

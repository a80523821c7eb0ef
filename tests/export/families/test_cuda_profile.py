"""Graphs in float16 keep to the contract, decide as those in float32, and say that no graphics card ran them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from tests.cuda_machines import hide_cuda
from tests.export.toy import ToyRun, quiet
from tests.small_transformer import small_graphs, small_transformer

from regard.contract.model_ports import GraphPorts
from regard.contract.ports import Port, Role
from regard.export.build import BuildSettings, build
from regard.export.bundle.writer import write_bundle
from regard.export.errors import BundleError, GraphError
from regard.export.families.cuda_profile import export_cuda
from regard.export.families.null import null_bundle
from regard.export.families.profile import ExportedProfile
from regard.export.parity.comparison import Grid
from regard.export.parity.greedy import random_sources
from regard.export.parity.runtime import GraphSession
from regard.export.surgery.half import compute_in_float16, round_in_float32
from regard.export.verify import add_arguments, run, verify

GRID = Grid(batches=(1, 3), source_lengths=(1, 9), steps=5)
VOCABULARIES = {"es": np.array([3, 5, 8, 40, 79])}


@pytest.fixture(scope="module")
def exported() -> ExportedProfile:
    """The profile of a small Transformer; to export it compares it with the model, padding and empty rows included."""
    sources = random_sources(20, 8, 100, np.random.default_rng(1))
    return export_cuda(small_transformer(), small_graphs("plain"), VOCABULARIES, GRID, sources, quiet)


def test_a_model_in_float16_decides_as_in_float32(exported: ExportedProfile) -> None:
    parity = exported.profile.parity
    assert parity.greedy_agreement > 0.99
    # Rounding is part of what was compared.
    assert 1e-3 < max(port.worst_absolute for port in parity.ports) < parity.tolerance


def test_memory_and_state_are_float16_and_what_is_answered_is_float32(exported: ExportedProfile) -> None:
    ports = {port.name: port.dtype for port in (*exported.profile.encode.outputs, *exported.profile.step.outputs)}
    assert {ports[name] for name in ("scores", "scores.es", "attention")} == {"float32"}
    assert {ports[name] for name in ("memory.keys_1", "next.state.values_0")} == {"float16"}
    assert (ports["memory.padding_bias"], ports["next.state.position"]) == ("float16", "int64")


def test_the_record_says_that_float16_was_emulated(exported: ExportedProfile) -> None:
    assert (exported.profile.parity.provider, exported.profile.parity.emulated) == ("CPUExecutionProvider", True)


def graph(
    nodes: list[NodeProto],
    inputs: Mapping[str, list[str | int]],
    outputs: Mapping[str, list[str | int]],
    **constants: float,
) -> ModelProto:
    """Return a graph over float32."""

    def values(sides: Mapping[str, list[str | int]]) -> list[ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, axes) for name, axes in sides.items()]

    made = helper.make_graph(
        nodes,
        "graph",
        values(inputs),
        values(outputs),
        [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def port(name: str, role: Role, dtype: str, *axes: str | int) -> Port:
    return Port(name=name, role=role, dtype=dtype, axes=axes)


def test_what_masks_stays_too_large_for_float16_and_nothing_becomes_nan() -> None:
    # A row looks at two of three positions, whose energies are at the end of float16's range, one at none, and one at
    # all alike.
    nodes = [
        helper.make_node("MatMul", ["state.query", "memory.keys"], ["energy"]),
        helper.make_node("Greater", ["memory.seen", "zero"], ["real"]),
        helper.make_node("Where", ["real", "zero", "floor"], ["unseen"]),
        helper.make_node("Add", ["energy", "unseen"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["attention"]),
    ]
    inputs: dict[str, list[str | int]] = {"state.query": [3, 4], "memory.keys": [4, 3], "memory.seen": [3, 3]}
    floor = float(np.finfo(np.float32).min)
    ports = GraphPorts(
        (
            port("state.query", "state", "float16", 3, 4),
            port("memory.keys", "memory", "float16", 4, 3),
            port("memory.seen", "memory", "float16", 3, 3),
        ),
        (port("attention", "attention", "float32", 3, 3),),
    )
    half = compute_in_float16(graph(nodes, inputs, {"attention": [3, 3]}, zero=0.0, floor=floor), ports)
    feed = {
        "state.query": np.array([[-128.0] * 4, [-128.0] * 4, [0.0] * 4]),
        "memory.keys": np.array([[127.0, 127.0, 100.0]] * 4),
        "memory.seen": np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]),
    }
    for model in (half, round_in_float32(half)):
        weights: NDArray[np.float32] = GraphSession(model.SerializeToString(), what="attention").run(feed)["attention"]
        assert weights.dtype == np.float32
        np.testing.assert_array_equal(weights[0], [0.5, 0.5, 0.0])
        # Float16 has no nearer number than 0.33325.
        np.testing.assert_allclose(weights[2], [1 / 3] * 3, rtol=1e-6)
        assert np.isfinite(weights).all()


def test_results_are_rounded_in_float32_as_numpy_rounds_in_float16() -> None:
    nodes = [
        helper.make_node("Add", ["state.x", "one"], ["sum"]),
        helper.make_node("Sub", ["sum", "one"], ["next.state.x"]),
    ]
    ports = GraphPorts(
        (port("state.x", "state", "float16", "batch"),), (port("next.state.x", "state", "float16", "batch"),)
    )
    half = compute_in_float16(graph(nodes, {"state.x": ["batch"]}, {"next.state.x": ["batch"]}, one=1.0), ports)
    x = np.array([1e-4, 6e-4, 0.3], np.float16)
    rounded = GraphSession(round_in_float32(half).SerializeToString(), what="a sum").run({"state.x": x})["next.state.x"]
    np.testing.assert_array_equal(rounded, x + np.float16(1) - np.float16(1))
    # Without it a processor's answer would say nothing of float16.
    assert rounded[0] == 0.0


def test_verification_and_card_say_what_did_not_run_on_its_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = null_bundle()
    bundle.manifest.profiles[1].parity.emulated = True
    folder = tmp_path / "null" / "1"
    write_bundle(folder, bundle)
    said: list[str] = []
    verify(folder, said.append)
    assert [line.partition(":")[0] for line in said if "unverified" in line] == ["profile cpu"]
    assert "**`cpu` is unverified" in (folder / "README.md").read_text(encoding="utf-8")
    with pytest.raises(BundleError, match="no profile 'cuda'; the profiles are portable, cpu"):
        verify(folder, said.append, profile="cuda")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run(parser.parse_args([str(folder), "--device", "cuda"])) == 1
    assert "no profile 'cuda'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "profile"), [(BuildSettings(cuda=True), "cuda"), (BuildSettings(float32=True), "cpu-float32")]
)
def test_other_models_than_transformers_have_no_such_profile(
    toy_run: ToyRun, settings: BuildSettings, profile: str
) -> None:
    with pytest.raises(BundleError, match=f"no Transformer that translates, so it has no profile {profile}"):
        build(toy_run.folder, settings, quiet)


def test_a_graph_is_never_run_elsewhere_than_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_cuda(monkeypatch)
    nodes = [helper.make_node("Identity", ["state.x"], ["next.state.x"])]
    model = graph(nodes, {"state.x": ["batch"]}, {"next.state.x": ["batch"]})
    with pytest.raises(GraphError, match="built without CUDA"):
        GraphSession(model.SerializeToString(), what="a graph", device="cuda")
    folder = tmp_path / "null" / "1"
    write_bundle(folder, null_bundle())
    with pytest.raises(GraphError, match="built without CUDA"):
        verify(folder, quiet, profile="portable", device="cuda")

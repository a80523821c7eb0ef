"""A toy model that has learnt to write words backwards, its bundle, a small Transformer and graphs made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.export.toy import ToyBundle, ToyRun, train_toy
from tests.small_transformer import small_graphs, small_transformer

from regard.export.build import BuildSettings, build
from regard.export.bundle.writer import write_bundle
from regard.export.families.profile import Traced
from regard.training.models.transformer import Transformer


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> ToyRun:
    """Train a toy model once for all tests; they must not change it."""
    return train_toy(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def toy_bundle(toy_run: ToyRun, tmp_path_factory: pytest.TempPathFactory) -> ToyBundle:
    """Export the toy model once for all tests; they must not write to its folder."""
    said: list[str] = []
    bundle = build(toy_run.folder, BuildSettings(), said.append)
    folder = tmp_path_factory.mktemp("models") / "toy-reverse" / "1"
    return ToyBundle(folder, bundle, write_bundle(folder, bundle), said)


@pytest.fixture
def product() -> Callable[[np.ndarray, np.ndarray], ModelProto]:
    """Return what makes the graph y = x @ weight + bias."""

    def make(weight: np.ndarray, bias: np.ndarray) -> ModelProto:
        graph = helper.make_graph(
            [helper.make_node("Gemm", ["x", "weight", "bias"], ["y"])],
            "product",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", weight.shape[0]])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", weight.shape[1]])],
            [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(bias, "bias")],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    return make


@pytest.fixture(scope="session")
def model() -> Transformer:
    """Return a small Transformer of random weights; tests must not change it."""
    return small_transformer()


@pytest.fixture(scope="session")
def traced() -> Mapping[str, Traced]:
    """Return its graphs in float32 by how they attend."""
    return {"plain": small_graphs("plain"), "shared-buffer": small_graphs("shared-buffer")}

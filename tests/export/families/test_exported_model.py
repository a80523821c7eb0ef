"""A trained model's graphs compute what the model does, for every batch, length and padding (X01, X04, X05, X12)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tests.export.toy import ToyBundle, ToyRun

from regard.contract.model_ports import ModelPorts
from regard.export.families.graphs import TorchMachine, open_model
from regard.export.parity.greedy import END, greedy_steps, pad_sources, random_sources, step_inputs
from regard.export.parity.runtime import GraphSession, OnnxMachine
from regard.export.surgery.rewrite import attributes

STEP_FILES = {"portable": "step.portable.onnx", "cpu": "step.cpu.onnx"}


def machine_of(toy: ToyBundle, profile: str) -> OnnxMachine:
    files = toy.bundle.files
    return OnnxMachine(files["encode.portable.onnx"], files[STEP_FILES[profile]])


@pytest.fixture(scope="module")
def ports(toy_run: ToyRun) -> ModelPorts:
    """The ports of the toy model."""
    return open_model(toy_run.checkpoint.model, vocabulary=toy_run.checkpoint.vocabulary.size).ports


@pytest.fixture(scope="module", params=sorted(STEP_FILES))
def machine(request: pytest.FixtureRequest, toy_bundle: ToyBundle) -> OnnxMachine:
    """The toy model as each profile runs it."""
    return machine_of(toy_bundle, request.param)


def decode(
    machine: OnnxMachine, ports: ModelPorts, inputs: dict[str, NDArray[np.int64]], tokens: NDArray[np.int64]
) -> list[dict[str, NDArray[Any]]]:
    """Return what encode gives and what each step gives for tokens [step, batch]."""
    memory = machine.encode(inputs)
    outputs = [memory]
    for token in tokens:
        outputs.append(machine.step(step_inputs(ports.step, token, outputs[-1], memory)))
    return outputs


@pytest.mark.parametrize(("batch", "length"), [(1, 5), (3, 5), (2, 9), (1, 1), (33, 3)])
def test_portable_graphs_equal_the_model_at_sizes_that_were_not_traced(
    batch: int, length: int, toy_run: ToyRun, toy_bundle: ToyBundle, ports: ModelPorts
) -> None:
    # The weights lose a little as float16; what is left of the model is the same.
    model = TorchMachine(open_model(toy_run.checkpoint.model, vocabulary=ports.vocabulary))
    rng = np.random.default_rng(batch * 100 + length)
    inputs = pad_sources(random_sources(batch, length, ports.vocabulary, rng))
    tokens = rng.integers(4, ports.predictable, size=(3, batch))
    graph = machine_of(toy_bundle, "portable")
    memory = {"model": model.encode(inputs), "graph": graph.encode(inputs)}
    state = dict(memory)
    for token in tokens:
        for name in memory["model"]:
            np.testing.assert_allclose(memory["graph"][name], memory["model"][name], atol=5e-3)
        feed = step_inputs(ports.step, token, state["model"], memory["model"])
        state = {"model": model.step(feed), "graph": graph.step(feed)}
        for name in state["model"]:
            np.testing.assert_allclose(state["graph"][name], state["model"][name], atol=2e-2)


def test_parity_was_measured_and_is_within_rounding(toy_bundle: ToyBundle) -> None:
    portable, cpu = toy_bundle.manifest.profiles
    assert {port.port for port in portable.parity.ports} == {
        "attention",
        "memory.keys",
        "memory.mask",
        "memory.values",
        "next.state.hidden",
        "scores",
        "state.hidden",
    }
    assert max(port.worst_absolute for port in portable.parity.ports) < 1e-5
    assert portable.parity.greedy_agreement == 1.0
    assert 1 in portable.parity.batches
    assert 1 in portable.parity.source_lengths
    assert cpu.parity.greedy_agreement > 0.99


def test_trained_model_still_writes_words_backwards(machine: OnnxMachine, toy_run: ToyRun, ports: ModelPorts) -> None:
    vocabulary = toy_run.checkpoint.vocabulary
    source = vocabulary.encode("ala bee cat dog")
    chosen = [int(step.chosen[0][0]) for step in greedy_steps([machine], ports, [source])]
    assert chosen[-1] == END
    assert vocabulary.decode(chosen) == "dog cat bee ala"


def test_row_alone_equals_row_in_a_batch(machine: OnnxMachine, ports: ModelPorts) -> None:
    rng = np.random.default_rng(1)
    rows = random_sources(21, 16, ports.vocabulary, rng)
    inputs = pad_sources(rows)
    tokens = rng.integers(4, ports.predictable, size=(4, len(rows)))
    together = decode(machine, ports, inputs, tokens)
    for row in range(len(rows)):
        only = {name: array[row : row + 1] for name, array in inputs.items()}
        alone = decode(machine, ports, only, tokens[:, row : row + 1])
        for outputs, others in zip(alone, together, strict=True):
            for name, array in outputs.items():
                np.testing.assert_array_equal(array[0], others[name][row], err_msg=name)


def test_padding_changes_no_answer(machine: OnnxMachine, ports: ModelPorts) -> None:
    rng = np.random.default_rng(2)
    rows = random_sources(5, 16, ports.vocabulary, rng)
    inputs = pad_sources(rows)
    width = inputs["source"].shape[1]
    wider = {**inputs, "source": np.pad(inputs["source"], ((0, 0), (0, 32)))}
    tokens = rng.integers(4, ports.predictable, size=(3, len(rows)))
    narrow_steps, wide_steps = (decode(machine, ports, each, tokens)[1:] for each in (inputs, wider))
    for narrow, wide in zip(narrow_steps, wide_steps, strict=True):
        np.testing.assert_allclose(wide["scores"], narrow["scores"], atol=1e-5)
        np.testing.assert_allclose(wide["attention"][..., :width], narrow["attention"], atol=1e-6)
        assert not wide["attention"][..., width:].any()


def test_attention_sums_to_one_over_words_and_is_nothing_on_padding(machine: OnnxMachine, ports: ModelPorts) -> None:
    inputs = pad_sources([[4, END], [5, 6, 7, 8, END], [END]])
    outputs = decode(machine, ports, inputs, np.full((2, 3), 4))[1:]
    for step in outputs:
        np.testing.assert_allclose(step["attention"].sum(axis=-1), 1.0, atol=1e-6)
        assert not step["attention"][0, ..., 2:].any()
        assert not step["attention"][2, ..., 1:].any()


def test_row_of_nothing_but_padding_gives_no_attention_and_no_nan(machine: OnnxMachine, ports: ModelPorts) -> None:
    inputs = pad_sources([[4, 5, END], [6, 7, END]])
    memory = dict(machine.encode(inputs))
    memory["memory.mask"] = memory["memory.mask"] & np.array([[True], [False]])
    outputs = machine.step(step_inputs(ports.step, np.array([4, 4]), memory, memory))
    assert not outputs["attention"][1].any()
    np.testing.assert_allclose(outputs["attention"][0].sum(), 1.0, atol=1e-6)
    assert all(np.isfinite(array).all() for array in outputs.values())


def test_length_zero_gives_no_nan(machine: OnnxMachine) -> None:
    # No caller may ask for it, but it must not spoil the neighbours.
    inputs = pad_sources([[4, 5, END], [6, 7, END]])
    whole = machine.encode(inputs)
    emptied = machine.encode({**inputs, "source_length": np.array([3, 0])})
    for name, array in emptied.items():
        assert np.isfinite(array).all(), name
        np.testing.assert_array_equal(array[0], whole[name][0])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_axis_is_an_error_and_not_the_end_of_the_process(shape: tuple[int, int], machine: OnnxMachine) -> None:
    inputs = {"source": np.zeros(shape, np.int64), "source_length": np.zeros(shape[0], np.int64)}
    with pytest.raises(ValueError, match="every axis has at least size 1"):
        machine.encode(inputs)


def test_gru_reads_lengths_and_resets_as_torch_does(toy_bundle: ToyBundle) -> None:
    encode = onnx.load_model_from_string(toy_bundle.bundle.files["encode.portable.onnx"])
    (gru,) = [node for node in encode.graph.node if node.op_type == "GRU"]
    assert attributes(gru)["linear_before_reset"] == 1
    assert gru.input[4]


def test_portable_profile_has_plain_operators_and_float16_weights_only(toy_bundle: ToyBundle) -> None:
    for name in ("encode.portable.onnx", "step.portable.onnx"):
        model = onnx.load_model_from_string(toy_bundle.bundle.files[name])
        assert {node.domain for node in model.graph.node} == {""}
        large = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) >= 256]
        assert {tensor.data_type for tensor in large} == {onnx.TensorProto.FLOAT16}


def test_int8_profile_has_no_scale_of_the_batch(toy_bundle: ToyBundle) -> None:
    model = onnx.load_model_from_string(toy_bundle.bundle.files["step.cpu.onnx"])
    operators = {node.op_type for node in model.graph.node}
    assert "MatMulIntegerToFloat" in operators
    assert not operators & {"DynamicQuantizeLinear", "DynamicQuantizeMatMul"}


def test_opset_and_ir_are_recorded_and_every_graph_opens(toy_bundle: ToyBundle) -> None:
    for profile in toy_bundle.manifest.profiles:
        for graph in (profile.encode, profile.step):
            data = toy_bundle.bundle.files[graph.file]
            model = onnx.load_model_from_string(data)
            assert graph.opset == next(entry.version for entry in model.opset_import if not entry.domain)
            assert graph.ir_version == model.ir_version
            GraphSession(data, what=graph.file)


def test_bundle_runs_where_there_is_no_torch(toy_bundle: ToyBundle) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from regard.cli.main import main\n"
        f"sys.exit(main(['verify', {str(toy_bundle.folder)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "profiles portable and cpu" in done.stdout

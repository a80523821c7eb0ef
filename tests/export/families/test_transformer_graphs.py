"""A Transformer's graphs compute what the model does, whatever stands in buffers and in neighbouring rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from regard.contract.model_ports import ModelPorts
from regard.export.families.profile import Traced
from regard.export.families.transformer import open_transformer
from regard.export.families.transformer_machine import TransformerMachine
from regard.export.families.transformer_profiles import quantize_transformer, rounded_for_storage
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.greedy import END, first_state, greedy_steps, pad_sources, random_sources, step_inputs
from regard.export.parity.runtime import OnnxMachine
from regard.export.surgery.storage import store_as_float16
from regard.export.surgery.tables import store_tables
from regard.training.models.transformer import Transformer, TransformerConfig

BODIES = ("plain", "shared-buffer")
GRID = Grid(batches=(1, 3), source_lengths=(1, 9), steps=5)


@pytest.fixture(scope="module")
def ports(traced: Mapping[str, Traced]) -> ModelPorts:
    """The ports of its graphs, the same for all."""
    assert traced["plain"].ports == traced["shared-buffer"].ports
    return traced["plain"].ports


@pytest.fixture(scope="module")
def quantized(traced: Mapping[str, Traced]) -> Traced:
    """Its graphs in int8."""
    sources = random_sources(20, 12, 100, np.random.default_rng(4))
    return quantize_transformer(traced["shared-buffer"], sources, lambda line: None)


def machine_of(graphs: Traced, *, in_place: bool) -> OnnxMachine:
    encode, step = (_bytes(graph) for graph in (graphs.encode, graphs.step))
    return OnnxMachine(encode, step, in_place=graphs.ports.shared if in_place else None)


def _bytes(graph: ModelProto) -> bytes:
    return graph.SerializeToString()


@pytest.mark.parametrize(("body", "in_place"), [("plain", False), ("shared-buffer", False), ("shared-buffer", True)])
def test_graphs_equal_the_model_with_rows_of_any_age_and_garbage_in_their_buffers(
    body: str, in_place: bool, model: Transformer, traced: Mapping[str, Traced], ports: ModelPorts
) -> None:
    sources = random_sources(3, 5, ports.vocabulary, np.random.default_rng(1))
    machine = machine_of(traced[body], in_place=in_place)
    record = measure(
        TransformerMachine(model, ports), machine, ports, grid=GRID, tolerances={"": 2e-5}, sources=sources
    )
    assert record.greedy_agreement == 1.0
    assert {port.port for port in record.ports} >= {"attention", "memory.keys_1", "next.state.values_1", "scores"}


def test_stored_weights_are_those_of_the_rounded_model(model: Transformer, traced: Mapping[str, Traced]) -> None:
    rounded = rounded_for_storage(model)
    graphs = traced["plain"]
    encode, step = (store_as_float16(store_tables(graph)) for graph in (graphs.encode, graphs.step))
    stored = Traced(encode, step, graphs.ports)
    sources = random_sources(3, 5, 100, np.random.default_rng(1))
    measure(
        TransformerMachine(rounded, graphs.ports),
        machine_of(stored, in_place=False),
        graphs.ports,
        grid=GRID,
        tolerances={"": 2e-5},
        sources=sources,
    )
    assert len(_bytes(stored.step)) < 0.65 * len(_bytes(graphs.step))


def test_queries_that_are_scaled_by_a_power_of_two_are_stored_in_float16_too() -> None:
    torch.manual_seed(3)  # pyright: ignore[reportUnknownMemberType]  half typed
    config = TransformerConfig(
        vocabulary=40, output=30, dim=64, heads=1, feed_forward=64, encoder_layers=1, decoder_layers=1, longest=20
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e-3)  # so small that an eighth of it loses digits
    for rounded, fits in ((model, False), (rounded_for_storage(model), True)):
        graph = open_transformer(rounded, "plain").encode
        (packed,) = [weight for name, weight in graph.named_parameters() if name == "packed.0.weight"]
        assert torch.equal(packed.half().float(), packed) is fits


def test_profiles_choose_the_same_tokens_in_float32(traced: Mapping[str, Traced], ports: ModelPorts) -> None:
    machines = [machine_of(traced[body], in_place=body != "plain") for body in BODIES]
    sources = random_sources(8, 10, ports.vocabulary, np.random.default_rng(2))
    for step in greedy_steps(machines, ports, sources):
        np.testing.assert_array_equal(step.chosen[0][step.live], step.chosen[1][step.live])


def decode(
    machine: OnnxMachine, ports: ModelPorts, inputs: Mapping[str, NDArray[np.int64]], tokens: NDArray[np.int64]
) -> list[dict[str, NDArray[Any]]]:
    """Return what encode gives and what each step gives for tokens [step, batch]."""
    memory = machine.encode(inputs)
    outputs: list[dict[str, NDArray[Any]]] = []
    state = first_state(ports.step, memory, tokens.shape[1], len(tokens) + 2)
    for token in tokens:
        outputs.append(machine.step(step_inputs(ports.step, token, outputs[-1] if outputs else state, memory)))
    return [memory, *outputs]


def test_int8_row_alone_equals_row_in_a_batch(quantized: Traced) -> None:
    ports = quantized.ports
    machine = machine_of(quantized, in_place=True)
    rng = np.random.default_rng(3)
    rows = random_sources(37, 16, ports.vocabulary, rng)
    inputs = pad_sources(rows)
    tokens = rng.integers(4, ports.predictable, size=(4, len(rows)))
    together = decode(machine, ports, inputs, tokens)
    for row in range(len(rows)):
        only = {name: array[row : row + 1] for name, array in inputs.items()}
        for outputs, others in zip(decode(machine, ports, only, tokens[:, row : row + 1]), together, strict=True):
            for name, array in outputs.items():
                np.testing.assert_array_equal(array[0], others[name][row], err_msg=name)


def test_int8_comes_close_to_the_model(model: Transformer, quantized: Traced) -> None:
    record = measure(
        TransformerMachine(model, quantized.ports),
        machine_of(quantized, in_place=True),
        quantized.ports,
        grid=GRID,
        tolerances={"": 0.2, "scores": 0.5},
        sources=random_sources(2, 5, 100, np.random.default_rng(5)),
    )
    assert max(port.worst_absolute for port in record.ports) > 1e-4


def test_int8_step_stores_the_embeddings_once(quantized: Traced) -> None:
    tables = [tensor for tensor in quantized.step.graph.initializer if 80 in tensor.dims and 64 in tensor.dims]
    assert len(tables) == 1


@pytest.mark.parametrize("body", BODIES)
def test_a_neighbour_that_is_nothing_but_padding_does_no_harm(
    body: str, traced: Mapping[str, Traced], ports: ModelPorts
) -> None:
    machine = machine_of(traced[body], in_place=body != "plain")
    memory = dict(machine.encode(pad_sources([[4, 5, END], [6, 7, END]])))
    feed = step_inputs(ports.step, np.array([4, 4]), first_state(ports.step, memory, 2, 3), memory)
    alone = machine.step(feed)
    bias = memory["memory.padding_bias"].copy()
    bias[1] = bias.min(initial=-65504.0)
    beside = machine.step({**feed, "memory.padding_bias": bias})
    np.testing.assert_array_equal(beside["attention"][0], alone["attention"][0])
    assert np.isfinite(beside["scores"]).all()


def test_writing_in_place_leaves_the_callers_arrays_alone(traced: Mapping[str, Traced], ports: ModelPorts) -> None:
    machine = machine_of(traced["shared-buffer"], in_place=True)
    memory = machine.encode(pad_sources([[4, 5, END]]))
    feed = step_inputs(ports.step, np.array([4]), first_state(ports.step, memory, 1, 4), memory)
    first, second = machine.step(feed), machine.step(feed)
    assert not feed["state.keys_0"].any()
    np.testing.assert_array_equal(first["next.state.keys_0"], second["next.state.keys_0"])

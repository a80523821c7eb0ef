"""Code that a graph would freeze as it was for the sample is refused (X01, X03)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.contract.model_ports import GraphPorts
from regard.contract.ports import Port
from regard.export.errors import GraphError, TraceError
from regard.export.families.trace import trace

PORTS = GraphPorts(
    inputs=(Port(name="x", role="source", dtype="float32", axes=("batch", "source")),),
    outputs=(Port(name="y", role="scores", dtype="float32", axes=("batch", "source")),),
)
SAMPLES = ((torch.ones(3, 7),), (torch.ones(8, 4),))


class Function(nn.Module):
    """A function as a module of one input and one output."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (self.function(inputs[0]),)


def test_code_without_branches_is_traced_with_its_named_axes() -> None:
    model = trace(Function(lambda x: x * 2).eval(), SAMPLES, PORTS)
    axes = [axis.dim_param for axis in model.graph.output[0].type.tensor_type.shape.dim]
    assert axes == ["batch", "source"]


def test_graph_tells_nothing_of_the_code_it_came_from() -> None:
    model = trace(Function(lambda x: x * 2).eval(), SAMPLES, PORTS)
    assert __file__.encode() not in model.SerializeToString()
    assert b"test_graph_tracing" not in model.SerializeToString()


def test_branch_on_a_size_is_refused_although_the_exporter_keeps_silent() -> None:
    with pytest.raises(TraceError, match="another course for some sizes"):
        trace(Function(lambda x: x * 2 if x.shape[1] > 3 else x).eval(), SAMPLES, PORTS)


def test_branch_on_the_relation_of_sizes_is_refused() -> None:
    with pytest.raises(TraceError, match="another course for some sizes"):
        trace(Function(lambda x: x * 2 if x.shape[0] < x.shape[1] else x).eval(), SAMPLES, PORTS)


def test_branch_on_a_value_is_refused() -> None:
    with pytest.raises(TraceError, match="cannot be traced"):
        trace(Function(lambda x: x * 2 if bool((x > 0).any()) else x).eval(), SAMPLES, PORTS)


def test_length_read_as_a_number_is_refused() -> None:
    with pytest.raises(GraphError, match=r"should have the input \('x'"):
        trace(Function(lambda x: x / len(x[0])).eval(), SAMPLES, PORTS)


def test_initial_state_of_one_batch_size_is_refused() -> None:
    with pytest.raises((TraceError, GraphError)):
        trace(Function(lambda x: x + torch.zeros(3, 1)).eval(), SAMPLES, PORTS)

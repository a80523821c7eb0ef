"""Finds the largest absolute values of the inputs of a graph's products while real sentences are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper

from regard.contract.model_ports import ModelPorts
from regard.export.parity.greedy import Source, greedy_steps, pad_sources
from regard.export.parity.runtime import Arrays, GraphSession, Machine
from regard.export.surgery.rewrite import copy


class Observer:
    """A machine that runs a step graph and keeps the largest absolute value of some tensors inside it."""

    def __init__(self, machine: Machine, step: ModelProto, names: Sequence[str]) -> None:
        self._machine = machine
        self._step = GraphSession(_show(step, names).SerializeToString(), what="the graph to calibrate")
        self.ranges = dict.fromkeys(names, 0.0)

    def encode(self, inputs: Arrays) -> Arrays:
        """Read sources."""
        return self._machine.encode(inputs)

    def step(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Predict a token, and look."""
        outputs = self._step.run(inputs)
        for name in self.ranges:
            seen = outputs[name] if name in outputs else inputs[name]
            self.ranges[name] = max(self.ranges[name], float(np.abs(seen).max()))
        return outputs


def find_encode_ranges(encode: ModelProto, names: Sequence[str], sources: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the largest absolute value of the named tensors of an encode graph over sources, read one by one.

    Padding is nobody's, so that it widens no range.
    """
    opened = _show(encode, names)
    session = GraphSession(opened.SerializeToString(), what="the graph to calibrate")
    ranges = dict.fromkeys(names, 0.0)
    for source in sources:
        outputs = session.run(pad_sources([source]))
        for name in names:
            ranges[name] = max(ranges[name], float(np.abs(outputs[name]).max()))
    return ranges


def find_ranges(
    machine: Machine, step: ModelProto, names: Sequence[str], ports: ModelPorts, sources: Sequence[Source]
) -> dict[str, float]:
    """Return the largest absolute value of the named tensors of a step graph over greedy decoding of sources.

    machine encodes the sources; step decides the tokens.
    """
    observer = Observer(machine, step, names)
    for _ in greedy_steps([observer], ports, sources):
        pass
    return observer.ranges


def _show(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """Return a graph that gives the named tensors too."""
    opened = copy(model)
    outputs = {value.name for value in model.graph.output}
    opened.graph.output.extend(
        helper.make_tensor_value_info(name, 1, None) for name in names if name not in outputs | _inputs(model)
    )
    return opened


def _inputs(model: ModelProto) -> set[str]:
    return {value.name for value in model.graph.input}

"""Finds how large the inputs of a graph's products become while real sentences are decoded.

It does not know what the ranges are used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper

from export.greedy import greedy_steps
from export.ports import ModelPorts
from export.rewrite import copy
from export.runtime import Arrays, GraphSession, Machine


class Observer:
    """A machine that runs a step graph and keeps the largest absolute value of some tensors inside it."""

    def __init__(self, machine: Machine, step: ModelProto, names: Sequence[str]) -> None:
        self._machine = machine
        opened = copy(step)
        outputs = {value.name for value in step.graph.output}
        opened.graph.output.extend(
            helper.make_tensor_value_info(name, 1, None) for name in names if name not in outputs | _inputs(step)
        )
        self._step = GraphSession(opened.SerializeToString(), what="the graph to calibrate")
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


def find_ranges(
    machine: Machine, step: ModelProto, names: Sequence[str], ports: ModelPorts, sources: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Return the largest absolute value of the named tensors of a step graph over greedy decoding of sources.

    machine encodes the sources; step decides the tokens.
    """
    observer = Observer(machine, step, names)
    for _ in greedy_steps([observer], ports, sources):
        pass
    return observer.ranges


def _inputs(model: ModelProto) -> set[str]:
    return {value.name for value in model.graph.input}

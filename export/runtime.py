"""Runs the two graphs of a model on ONNX Runtime, as plain mappings of names to arrays.

The only file of the exporter that imports onnxruntime; it does not know how a graph was made, nor what its numbers
mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from export.errors import GraphError

Arrays = Mapping[str, NDArray[Any]]


class Machine(Protocol):
    """A model as its ports see it, whatever runs it; names are those of `export.ports`."""

    def encode(self, inputs: Arrays) -> Arrays:
        """Read sources: every input port of the encode graph to every output port."""
        ...

    def step(self, inputs: Arrays) -> Arrays:
        """Predict a token: every input port of the step graph to every output port."""
        ...


class GraphSession:
    """One graph, opened for one thread on the CPU.

    Raises GraphError if ONNX Runtime cannot open it.
    """

    def __init__(self, graph: bytes, *, what: str, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ORT's errors share no public base class
            raise GraphError(f"ONNX Runtime {onnxruntime.__version__} cannot open {what}: {error}") from error
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run once. Raises ValueError for an input with an axis of size 0, which would abort the whole process."""
        _refuse_empty(inputs)
        return dict(zip(self._outputs, self._session.run(None, inputs), strict=True))

    def run_in_place(self, inputs: Arrays, shared: Mapping[str, str]) -> dict[str, NDArray[Any]]:
        """Run once with some outputs in the memory of inputs, as shared says: name of the input by that of the output.

        The caller's arrays stay as they are: memory is shared with a copy. Raises ValueError as `run` does.
        """
        _refuse_empty(inputs)
        binding: Any = self._session.io_binding()
        runtime: Any = onnxruntime  # the stub knows no values
        copies = {name: np.array(inputs[name], order="C") for name in shared.values()}
        # ONNX Runtime gets no more than an address, so that both must outlive the call.
        values: dict[str, Any] = {
            name: runtime.OrtValue.ortvalue_from_numpy(copies.get(name, np.ascontiguousarray(array)))
            for name, array in inputs.items()
        }
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._outputs:
            if name in shared:
                binding.bind_ortvalue_output(name, values[shared[name]])
            else:
                binding.bind_output(name)
        self._session.run_with_iobinding(binding)
        made: list[Any] = binding.get_outputs()
        return {
            name: copies[shared[name]] if name in shared else value.numpy()
            for name, value in zip(self._outputs, made, strict=True)
        }


def _refuse_empty(inputs: Arrays) -> None:
    for name, array in inputs.items():
        if 0 in array.shape:
            raise ValueError(f"{name} has shape {array.shape}, but every axis has at least size 1.")


class OnnxMachine:
    """A model that ONNX Runtime runs from the bytes of its graphs.

    in_place names the step's outputs that lie in the memory of an input, and those inputs.
    """

    def __init__(
        self, encode: bytes, step: bytes, *, in_place: Mapping[str, str] | None = None, threads: int = 1
    ) -> None:
        self._encode = GraphSession(encode, what="the encode graph", threads=threads)
        self._step = GraphSession(step, what="the step graph", threads=threads)
        self._in_place = in_place or {}

    def encode(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Read sources."""
        return self._encode.run(inputs)

    def step(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Predict a token."""
        return self._step.run_in_place(inputs, self._in_place) if self._in_place else self._step.run(inputs)

"""Runs the two graphs of a model on ONNX Runtime, as plain mappings of names to arrays.

The only file of the exporter that opens sessions; it does not know how a graph was made, nor what its numbers mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from regard.contract.opened_graph import RealPort
from regard.export.errors import GraphError

Arrays = Mapping[str, NDArray[Any]]
Device = Literal["cpu", "cuda"]

CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"

_FLOATS: Mapping[str, type[np.floating[Any]]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Machine(Protocol):
    """A model as its ports see it, whatever runs it; names are those of `regard.contract.model_ports`."""

    def encode(self, inputs: Arrays) -> Arrays:
        """Read sources: every input port of the encode graph to every output port."""
        ...

    def step(self, inputs: Arrays) -> Arrays:
        """Predict a token: every input port of the step graph to every output port."""
        ...


class GraphSession:
    """One graph, opened for one thread on the CPU, or on a graphics card.

    What it takes as float16 may be given as float32, and the other way round.

    Raises GraphError if ONNX Runtime cannot open it, or not on the device.
    """

    def __init__(self, graph: bytes, *, what: str, threads: int = 1, device: Device = "cpu") -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            with warnings.catch_warnings():
                # Where a provider cannot be had the runtime warns and takes another; it is found out below.
                warnings.simplefilter("ignore")
                self._session = onnxruntime.InferenceSession(graph, options, providers=[_provider(device)])
        except GraphError:
            raise
        except Exception as error:  # ORT's errors share no public base class
            raise GraphError(f"ONNX Runtime {onnxruntime.__version__} cannot open {what}: {error}") from error
        if device == "cuda" and CUDA_PROVIDER not in self._session.get_providers():
            raise GraphError(
                f"ONNX Runtime took {', '.join(self._session.get_providers())} for {what} and not CUDA; is there a "
                "graphics card, with its driver and the CUDA and cuDNN libraries?"
            )
        self._floats = {port.name: _FLOATS[port.type] for port in self._session.get_inputs() if port.type in _FLOATS}
        self.ports: tuple[Sequence[RealPort], Sequence[RealPort]] = (
            self._session.get_inputs(),
            self._session.get_outputs(),
        )
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run once. Raises ValueError for an input with an axis of size 0, which would abort the whole process."""
        taken = self._taken(inputs)
        return dict(zip(self._outputs, self._session.run(None, taken), strict=True))

    def run_in_place(self, inputs: Arrays, shared: Mapping[str, str]) -> dict[str, NDArray[Any]]:
        """Run once with some outputs in the memory of inputs, as shared says: name of the input by that of the output.

        The caller's arrays stay as they are: memory is shared with a copy. Raises ValueError as `run` does.
        """
        inputs = self._taken(inputs)
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

    def _taken(self, inputs: Arrays) -> Arrays:
        """Return inputs with real numbers as the graph takes them."""
        for name, array in inputs.items():
            if 0 in array.shape:
                raise ValueError(f"{name} has shape {array.shape}, but every axis has at least size 1.")
        return {
            name: np.asarray(array, self._floats[name]) if name in self._floats else array
            for name, array in inputs.items()
        }


def _provider(device: Device) -> str:
    """Return the execution provider of a device. Raises GraphError if ONNX Runtime was built without it."""
    if device == "cpu":
        return CPU_PROVIDER
    if CUDA_PROVIDER not in onnxruntime.get_available_providers():
        raise GraphError(
            f"ONNX Runtime {onnxruntime.__version__} was built without CUDA; install the extra `cuda`, and no other "
            "that brings onnxruntime."
        )
    # Finds the CUDA libraries that were installed as Python packages.
    onnxruntime.preload_dlls()
    return CUDA_PROVIDER


class OnnxMachine:
    """A model that ONNX Runtime runs from the bytes of its graphs.

    in_place names the step's outputs that lie in the memory of an input, and those inputs; provider tells what runs it.
    """

    def __init__(
        self,
        encode: bytes,
        step: bytes,
        *,
        in_place: Mapping[str, str] | None = None,
        threads: int = 1,
        device: Device = "cpu",
    ) -> None:
        self._encode = GraphSession(encode, what="the encode graph", threads=threads, device=device)
        self._step = GraphSession(step, what="the step graph", threads=threads, device=device)
        self._in_place = in_place or {}
        self.provider = CUDA_PROVIDER if device == "cuda" else CPU_PROVIDER

    def real_ports(self) -> tuple[tuple[Sequence[RealPort], Sequence[RealPort]], ...]:
        """Inputs and outputs of encode and of step, as ONNX Runtime describes them."""
        return self._encode.ports, self._step.ports

    def encode(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Read sources."""
        return self._encode.run(inputs)

    def step(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Predict a token."""
        return self._step.run_in_place(inputs, self._in_place) if self._in_place else self._step.run(inputs)

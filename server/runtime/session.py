"""Opens the graphs of a bundle on ONNX Runtime and runs them; the only file of the server that imports it.

It knows tensors only by the names and roles of their ports, and nothing of requests, rows or searches.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from regard.contract.bundle import LoadedBundle
from regard.contract.errors import BundleError as ContractError
from regard.contract.opened_graph import check_ports
from regard.contract.ports import ENCODER_ATTENTION, STATE_OUTPUT_PREFIX, TARGET, GraphSpec, Port
from regard.server.engine.decoder import Tensors
from regard.server.engine.state_buffers import buffer_shape
from regard.server.errors import BundleError, DeviceUnavailable
from regard.server.request import Ids, Pixels
from regard.server.runtime.graph_check import describe

Device = Literal["auto", "cpu", "cuda"]

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"

# Only errors: warnings of the runtime are about shapes that it guessed, and would be one a run.
_LOG_ERRORS = 3
_PROBE_WIDTH = 16
_PROBE_ENTRIES = 4


class OpenModel:
    """The two graphs of a bundle, ready to run from any thread. Meets `regard.server.engine.decoder.Decoder`.

    Attributes:
        bundle: what was opened.
        provider: execution provider of ONNX Runtime that runs it.
        facts: sizes and ids.
    """

    def __init__(
        self,
        bundle: LoadedBundle,
        encode: onnxruntime.InferenceSession,
        step: onnxruntime.InferenceSession,
        provider: str,
    ) -> None:
        self.bundle = bundle
        self.provider = provider
        self.facts = describe(bundle)
        self._encode = encode
        self._step = step
        # A buffer begins empty, whatever the graph says. The encoder's own attention is for callers who ask.
        self._encoded = [
            port.name for port in bundle.encode.outputs if TARGET not in port.axes and port.role != "encoder_attention"
        ]

    def encode(self, source: Ids | Pixels, source_length: Ids, *, encoder_attention: bool = False) -> Tensors:
        """Read source int64 [batch, source], or pixels uint8 [batch, height, width, 3]; see `Decoder.encode`.

        Raises:
            ValueError: an axis or a length is 0, which would abort the whole process.
        """
        if 0 in source.shape or not len(source_length) or int(source_length.min()) < 1:
            raise ValueError(f"source has shape {source.shape} and lengths {source_length}; all must be at least 1")
        inputs = {"source": source, "source_length": source_length} if self.facts.pixels is None else {"pixels": source}
        names = [*self._encoded, ENCODER_ATTENTION] if encoder_attention else self._encoded
        return dict(zip(names, self._encode.run(names, inputs), strict=True))

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        """Prepare a step over the first `rows` rows of the buffers; see `Decoder.bind_step`.

        Raises:
            ValueError: an axis is 0, a buffer is missing, or one is not contiguous.
        """
        spec = self.bundle.step
        inputs = {**inputs, **self._scored_rows(outputs, rows)}
        made = [port for port in spec.outputs if port.role != "scores" or port.name in outputs]
        for port, buffers in [*((port, inputs) for port in spec.inputs), *((port, outputs) for port in made)]:
            if port.role == "scored_rows":
                continue
            buffer = buffers.get(port.name)
            if buffer is None or buffer.dtype != port.dtype or not buffer.flags.c_contiguous:
                raise ValueError(f"{port.name} needs a contiguous buffer of {port.dtype}")
            if not 1 <= rows <= len(buffer) or 0 in buffer.shape:
                raise ValueError(f"{port.name} has shape {buffer.shape}; {rows} rows of it cannot be stepped")
        if self.provider != CPU:
            return self._copying_step(inputs, outputs, made, rows)
        binding: Any = self._step.io_binding()  # its stub wants a buffer for every output
        for port in spec.inputs:
            buffer = inputs[port.name]
            shape = buffer.shape if port.role == "scored_rows" else (rows, *buffer.shape[1:])
            binding.bind_input(port.name, "cpu", 0, buffer.dtype.type, shape, buffer.ctypes.data)
        for port in spec.outputs:
            if port not in made:
                # Scores that were not asked for: no rows, for which the runtime itself has room.
                binding.bind_output(port.name, "cpu")
                continue
            buffer = outputs[port.name]
            shape = (rows, *buffer.shape[1:])
            binding.bind_output(port.name, "cpu", 0, buffer.dtype.type, shape, buffer.ctypes.data)

        def run(held: tuple[Tensors, Tensors] = (dict(inputs), dict(outputs))) -> None:
            # `held` keeps alive the buffers, of which the binding has only the addresses.
            self._step.run_with_iobinding(binding)

        return run

    def end_trace(self) -> dict[str, Path]:
        """Finish what `open_model(trace=...)` began; the files with the times of all runs, by graph."""
        return {"encode": Path(self._encode.end_profiling()), "step": Path(self._step.end_profiling())}

    def _scored_rows(self, outputs: Tensors, rows: int) -> Tensors:
        """Return what tells a step which scores are wanted: all rows of those with a buffer, none of the others."""
        names = [port.name for port in self.bundle.step.outputs if port.role == "scores"]
        if len(names) == 1:
            return {}
        wanted = [name in outputs for name in names]
        if sum(wanted) != 1:
            raise ValueError(f"a step makes one of the scores {', '.join(names)}")
        return {"scored_rows": np.array([rows * it for it in wanted], dtype=np.int64)}

    def _copying_step(self, inputs: Tensors, outputs: Tensors, made: Sequence[Port], rows: int) -> Callable[[], None]:
        """As `bind_step`, for devices with their own memory: there a bound input is copied once, not at every run."""
        names = [port.name for port in made]
        feed = {
            port.name: inputs[port.name] if port.role == "scored_rows" else inputs[port.name][:rows]
            for port in self.bundle.step.inputs
        }

        def run() -> None:
            for name, value in zip(names, self._step.run(names, feed), strict=True):
                outputs[name][:rows] = value

        return run

    def warm_up(self, *, widths: Sequence[int], rows: Sequence[int]) -> None:
        """Run both graphs once for every source width and number of rows, so that no request pays for a first run.

        Raises:
            BundleError: a graph fails, or gives other shapes than its ports promise.
        """
        for width in widths:
            for count in rows:
                try:
                    self._try(width, count)
                except BundleError:
                    raise
                except Exception as error:  # the runtime's errors share no public base class
                    raise BundleError(
                        f"bundle {self.bundle.directory}: profile {self.bundle.profile!r} fails on {count} sources "
                        f"of {width} tokens: {error}"
                    ) from error

    def _try(self, width: int, rows: int) -> None:
        source: Ids | Pixels = np.full((rows, width), self.facts.eos_id, dtype=np.int64)
        if self.facts.pixels is not None:
            source = np.zeros((rows, *self.facts.pixels, 3), dtype=np.uint8)
        length = np.full(rows, width, dtype=np.int64)
        encoded = self.encode(source, length, encoder_attention=self.facts.encoder_attention)
        for port in self.bundle.encode.outputs:
            if port.name in encoded:
                self._check_shape(port, encoded[port.name], rows, width)
        inputs: dict[str, NDArray[Any]] = {"token": np.full(rows, self.facts.bos_id, dtype=np.int64)}
        for port in (*self.facts.memory, *self.facts.state):
            if port.name not in encoded:
                inputs[port.name] = np.zeros(buffer_shape(port, rows, width, _PROBE_ENTRIES), dtype=port.dtype)
            else:
                inputs[port.name] = np.ascontiguousarray(encoded[port.name])
        if any(TARGET in port.axes for port in self.facts.state):
            for port in self.bundle.step.outputs:
                if port.role == "scores":
                    self._try_bound(inputs, port, rows, width)
            return
        for wanted in [port for port in self.bundle.step.outputs if port.role == "scores"]:
            made = [port for port in self.bundle.step.outputs if port.role != "scores" or port == wanted]
            feed = {**inputs, **self._scored_rows({wanted.name: inputs["token"]}, rows)}
            stepped = self._step.run([port.name for port in made], feed)
            for port, value in zip(made, stepped, strict=True):
                self._check_shape(port, value, rows, width)

    def _try_bound(self, inputs: Tensors, scores: Port, rows: int, width: int) -> None:
        """Run a step as the engine does; the runtime refuses to write to a buffer of another shape."""
        outputs: dict[str, NDArray[Any]] = {}
        for port in self.bundle.step.outputs:
            if port.role == "scores" and port != scores:
                continue
            state = port.name.removeprefix(STATE_OUTPUT_PREFIX)
            if TARGET in port.axes and self.facts.state_in_place:
                outputs[port.name] = inputs[state]
            else:
                outputs[port.name] = np.zeros(buffer_shape(port, rows, width, _PROBE_ENTRIES), dtype=port.dtype)
        self.bind_step(inputs, outputs, rows)()

    def _check_shape(self, port: Port, value: NDArray[Any], rows: int, width: int) -> None:
        sizes = {"batch": rows, "source": width}
        promised = tuple(axis if isinstance(axis, int) else sizes.get(axis, -1) for axis in port.axes)
        if value.shape != promised:
            raise BundleError(
                f"bundle {self.bundle.directory}: {port.name} has shape {value.shape} for {rows} sources of {width} "
                f"tokens; its port promises {promised}"
            )


def open_model(bundle: LoadedBundle, *, device: Device, intra_op_threads: int, trace: Path | None = None) -> OpenModel:
    """Open both graphs of a bundle and try them once.

    Args:
        bundle: whose files and manifest are checked.
        device: `auto` takes CUDA where it really works, and the processor elsewhere; `OpenModel.provider` says which.
        intra_op_threads: threads of one run; several runs may go on at once.
        trace: folder for the times of all operators of all runs, see `OpenModel.end_trace`; None to take none.

    Raises:
        BundleError: the runtime refuses a graph, or its ports are not those of the manifest.
        DeviceUnavailable: `cuda` was asked for and cannot be had.
    """
    provider = _provider(device)
    chosen = with_provider_profile(bundle, provider)
    try:
        sessions = [
            _open(chosen, spec, provider=provider, intra_op_threads=intra_op_threads, trace=trace)
            for spec in (chosen.encode, chosen.step)
        ]
    except DeviceUnavailable:
        if device == "cuda":
            raise
        provider, chosen = CPU, bundle
        sessions = [
            _open(chosen, spec, provider=provider, intra_op_threads=intra_op_threads, trace=trace)
            for spec in (chosen.encode, chosen.step)
        ]
    model = OpenModel(chosen, sessions[0], sessions[1], provider)
    # All pictures have the same number of positions.
    width = min(_PROBE_WIDTH, bundle.max_source_tokens) if bundle.image is None else bundle.max_source_tokens
    model.warm_up(widths=(width,), rows=(1, 2))
    return model


def with_provider_profile(bundle: LoadedBundle, provider: str) -> LoadedBundle:
    """The bundle with the graphs for a provider: on CUDA those made for it, if it has them and none were named."""
    return bundle.for_cuda or bundle if provider == CUDA else bundle


def _provider(device: Device) -> str:
    if device == "cpu":
        return CPU
    if CUDA in onnxruntime.get_available_providers():
        # Finds the CUDA libraries that were installed as Python packages.
        onnxruntime.preload_dlls()
        return CUDA
    if device == "cuda":
        raise DeviceUnavailable(
            f"device cuda: ONNX Runtime {onnxruntime.__version__} was built without CUDA (it has "
            f"{', '.join(onnxruntime.get_available_providers())}); install the extra `cuda` instead of `serve`"
        )
    return CPU


def _open(
    bundle: LoadedBundle, spec: GraphSpec, *, provider: str, intra_op_threads: int, trace: Path | None
) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = intra_op_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS
    # Patterns are kept for each shape that was ever seen, and shapes are many here.
    options.enable_mem_pattern = False
    if trace is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(trace / spec.path.stem)  # pyright: ignore[reportAttributeAccessIssue] - the stubs lack it
    # A spinning thread takes the processor from the next worker.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    try:
        with warnings.catch_warnings():
            # Where a provider cannot be had the runtime warns and takes another; it is found out below.
            warnings.simplefilter("ignore")
            session = onnxruntime.InferenceSession(str(spec.path), options, providers=[provider])
    except Exception as error:  # the runtime's errors share no public base class
        if provider != CPU:
            raise DeviceUnavailable(f"device cuda: {error}") from error
        raise BundleError(
            f"bundle {bundle.directory}: ONNX Runtime {onnxruntime.__version__} refuses {spec.path.name}: {error}"
        ) from error
    if provider not in session.get_providers():
        raise DeviceUnavailable(
            f"device cuda: ONNX Runtime fell back to {', '.join(session.get_providers())}; "
            "is there a graphics card, with its driver and the CUDA and cuDNN libraries?"
        )
    where = f"bundle {bundle.directory}: {spec.path.name}"
    try:
        check_ports(spec.inputs, session.get_inputs(), f"{where}: inputs")
        check_ports(spec.outputs, session.get_outputs(), f"{where}: outputs")
    except ContractError as error:
        raise BundleError(str(error)) from error
    return session

"""The part of onnxruntime's interface that this project uses."""

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

__version__: str

class GraphOptimizationLevel(Enum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99

class SessionOptions:
    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int
    graph_optimization_level: GraphOptimizationLevel
    optimized_model_filepath: str
    enable_profiling: bool
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    def __init__(self) -> None: ...
    def add_session_config_entry(self, key: str, value: str) -> None: ...

class NodeArg:
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def shape(self) -> list[int | str | None]: ...

class InferenceSession:
    def __init__(
        self,
        path_or_bytes: str | bytes | Path,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, str]]] | None = None,
    ) -> None: ...
    def get_inputs(self) -> list[NodeArg]: ...
    def get_outputs(self) -> list[NodeArg]: ...
    def get_providers(self) -> list[str]: ...
    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]: ...
    def io_binding(self) -> IOBinding: ...
    def run_with_iobinding(self, iobinding: IOBinding) -> None: ...
    def end_profiling(self) -> str: ...

class IOBinding:
    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: type[Any],
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None: ...
    def bind_output(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: type[Any],
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None: ...

def get_available_providers() -> list[str]: ...
def preload_dlls() -> None: ...

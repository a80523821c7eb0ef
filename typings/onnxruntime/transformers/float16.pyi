"""The part of its converter to float16 that this project uses."""

from collections.abc import Sequence

from onnx import ModelProto

def convert_float_to_float16(
    model: ModelProto, *, keep_io_types: bool | list[str] = False, node_block_list: Sequence[str] | None = None
) -> ModelProto: ...

"""Turns attention as it travels into arrays.

Does not know what the positions stand for; refuses bytes that contradict their shape instead of guessing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.client.errors import UnreadableReply
from regard.client.results import Attention, Granularity
from regard.v1 import attention_pb2

_STORED_TYPES: dict[int, str] = {
    attention_pb2.ATTENTION_ENCODING_UNSPECIFIED: "<f4",
    attention_pb2.ATTENTION_ENCODING_FLOAT32: "<f4",
    attention_pb2.ATTENTION_ENCODING_FLOAT16: "<f2",
    attention_pb2.ATTENTION_ENCODING_UINT8: "u1",
}
_MOST_COLUMNS = 2**16  # that 16 bits can count
_HEADS = ((), ("layer", "head"))
_WITHIN_PICTURE = ("layer", "head", "query_row", "query_column", "row", "column")


def granularity_of(options: attention_pb2.AttentionOptions) -> Granularity:
    """Return what the rows of the attention are that was asked for so."""
    return "word" if options.granularity == attention_pb2.ATTENTION_GRANULARITY_WORD else "subword"


def read_attention(
    message: attention_pb2.Attention, granularity: Granularity, *, targets: int, source: Mapping[str, int]
) -> Attention:
    """Return the weights of a message.

    Args:
        message: what the server sent.
        granularity: whether positions are tokens or words.
        targets: target positions that there are.
        source: the axes of the source with their sizes: `source`, or `row` and `column`.

    Raises:
        UnreadableReply: it does not have these axes, or contradicts itself.
    """
    shape, names = tuple(message.shape), tuple(message.axes)
    sizes = tuple(source.values())
    # The k largest weights of a row have places in `indices` and stand on one axis, whatever the source has.
    axes = 1 if message.indices else len(source)
    leading, trailing = names[: -axes - 1], names[-axes:]
    known = message.indices or trailing == tuple(source)
    if len(shape) != len(names) or names[-axes - 1 : -axes] != ("target",) or leading not in _HEADS or not known:
        raise UnreadableReply(f"the server sent attention of shape {shape} with axes {list(names)}")
    if shape[-axes - 1] != targets or not (message.indices or shape[-axes:] == sizes):
        raise UnreadableReply(
            f"the server sent attention of shape {shape} for {targets} target and "
            f"{' x '.join(map(str, sizes))} source positions"
        )
    weights = _weights(message)
    if message.indices:
        weights = _spread(weights, _array(message.indices, "<u2", shape), math.prod(sizes))
        weights = weights.reshape(*shape[:-1], *sizes)
    return Attention(
        weights=weights,
        axes=(*leading, "target", *source),
        granularity=granularity,
        layers=tuple(message.layers),
        heads=tuple(message.heads),
    )


def read_encoder_attention(message: attention_pb2.Attention, *, rows: int, columns: int) -> NDArray[np.float32]:
    """Return how the cells of a picture's map, rows x columns of them, looked at each other.

    Raises:
        UnreadableReply: it does not have these axes, or contradicts itself.
    """
    axes, shape = tuple(message.axes), tuple(message.shape)
    if axes != _WITHIN_PICTURE or len(shape) != len(axes) or shape[2:] != (rows, columns) * 2:
        raise UnreadableReply(
            f"the server sent attention of shape {shape} with axes {list(axes)} within {rows} x {columns} cells"
        )
    return _weights(message)


def _weights(message: attention_pb2.Attention) -> NDArray[np.float32]:
    if message.encoding not in _STORED_TYPES:
        raise UnreadableReply(f"the server sent attention in the unknown encoding {message.encoding}")
    weights = _array(message.values, _STORED_TYPES[message.encoding], tuple(message.shape)).astype(np.float32)
    if message.encoding == attention_pb2.ATTENTION_ENCODING_UINT8:
        weights /= np.float32(255)
    return weights


def _array(data: bytes, stored_type: str, shape: Sequence[int]) -> NDArray[np.generic]:
    dtype = np.dtype(stored_type)
    if any(size < 0 for size in shape) or len(data) != dtype.itemsize * math.prod(shape):
        raise UnreadableReply(f"the server sent {len(data)} bytes of attention for the shape {tuple(shape)}")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _spread(weights: NDArray[np.float32], indices: NDArray[np.generic], columns: int) -> NDArray[np.float32]:
    """Put the k weights of every row at their columns, zeros elsewhere."""
    if columns > _MOST_COLUMNS:
        raise UnreadableReply(f"the server sent numbers of columns for {columns} of them, which they cannot count")
    if indices.size and int(indices.max()) >= columns:
        raise UnreadableReply(f"the server sent a weight for column {indices.max()} of {columns}")
    spread = np.zeros((*weights.shape[:-1], columns), dtype=np.float32)
    np.put_along_axis(spread, indices.astype(np.int64), weights, axis=-1)
    return spread

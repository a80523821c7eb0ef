"""Attention as callers want it: of some heads, by words, as links, the largest weights only, in few bytes.

It does not know models, text or protobuf: arrays and runs of tokens only. Rows sum to 1 over the source before and
after everything but `keep_largest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Weights


class Encoding(Enum):
    """How a weight is written, little-endian."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    UINT8 = "uint8"


class Run(Protocol):
    """Tokens [first_token, first_token + token_count)."""

    @property
    def first_token(self) -> int: ...

    @property
    def token_count(self) -> int: ...


class Link(NamedTuple):
    """A target word and the source word that it attends to most."""

    source_word: int
    target_word: int
    weight: float


def select_heads(attention: Weights, layers: Sequence[int], heads: Sequence[int]) -> Weights:
    """Some layers and heads of attention [layer, head, target, source], in the order given."""
    return attention[np.ix_(layers, heads)]


def mean_of_heads(attention: Weights) -> Weights:
    """Mean over all layers and heads of attention [layer, head, target, source]: [target, source]."""
    return attention.mean(axis=(0, 1), dtype=np.float32)


def merge_words(weights: Weights, target_words: Sequence[Run], source_words: Sequence[Run]) -> Weights:
    """Attention between words from attention between tokens.

    A target word attends to a source word with the sum over the tokens of the source word, as attention is a share, and
    the mean over the tokens of the target word, as each of them has a whole one.

    Args:
        weights: [..., target, source].
        target_words, source_words: cover their tokens in order, each token once.

    Returns:
        [..., target word, source word].
    """
    return merge_targets(_sum_runs(weights, source_words, axis=-1), target_words)


def merge_targets(weights: Weights, target_words: Sequence[Run]) -> Weights:
    """As `merge_words`, of the target only: [..., target, source] to [..., target word, source]."""
    counts = np.array([word.token_count for word in target_words], dtype=np.float32)
    return _sum_runs(weights, target_words, axis=-2) / counts[:, None]


def _sum_runs(weights: Weights, runs: Sequence[Run], *, axis: int) -> Weights:
    if not runs:
        return np.take(weights, [], axis=axis)
    return np.add.reduceat(weights, [run.first_token for run in runs], axis=axis, dtype=np.float32)


def link_words(weights: Weights) -> list[Link]:
    """The largest weight of each row, as a link.

    Args:
        weights: [target word, source word], the end of sentence being the last source word. It is no candidate, so
            that a link always names a word that is there; what it got is missing from the weight of the link.

    Returns:
        At most one link for each target word, in their order: none where all attention is on the end of sentence. Of
        equal weights the first one counts.
    """
    real = weights[:, :-1]
    if real.shape[1] == 0:
        return []
    best = real.argmax(axis=1)
    return [
        Link(int(source), target, float(real[target, source]))
        for target, source in enumerate(best)
        if real[target, source] > 0
    ]


def keep_largest(weights: Weights, count: int) -> tuple[Weights, NDArray[np.uint16]]:
    """The largest weights of each row, falling, and their columns; of equal ones the first counts.

    Args:
        weights: [..., source], of at most 65536 columns.
        count: at least 1; more than there are gives all.

    Returns:
        Weights and columns, both [..., min(count, source)].
    """
    columns = np.argsort(-weights, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(weights, columns, axis=-1), columns.astype(np.uint16)


def encode_weights(weights: Weights, encoding: Encoding) -> bytes:
    """Weights from 0 to 1 as row-major bytes; UINT8 holds round(255 * weight)."""
    match encoding:
        case Encoding.FLOAT32:
            return weights.astype("<f4").tobytes()
        case Encoding.FLOAT16:
            return weights.astype("<f2").tobytes()
        case Encoding.UINT8:
            # Rounding errors of a sum may pass 1 by a little, which must not turn into 0.
            return np.rint(np.clip(weights, 0, 1) * 255).astype(np.uint8).tobytes()


def encode_columns(columns: NDArray[np.uint16]) -> bytes:
    """Columns as row-major uint16."""
    return columns.astype("<u2").tobytes()

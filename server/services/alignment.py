"""Reduces attention weights to what callers ask for: selected heads, words, alignment links, top-k, compact encodings.

Works on arrays and runs of tokens only. Rows sum to 1 over the source before and after every function but
`keep_largest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Weights


class Encoding(Enum):
    """How a weight is encoded, little-endian."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    UINT8 = "uint8"


class Run(Protocol):
    """The tokens [first_token, first_token + token_count)."""

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
    """Select layers and heads of attention [layer, head, target, source], in the given order."""
    return attention[np.ix_(layers, heads)]


def mean_of_heads(attention: Weights) -> Weights:
    """Average attention [layer, head, target, source] over all layers and heads: [target, source]."""
    return attention.mean(axis=(0, 1), dtype=np.float32)


def merge_words(weights: Weights, target_words: Sequence[Run], source_words: Sequence[Run]) -> Weights:
    """Merge attention between tokens into attention between words.

    The weight of a source word is the sum over its tokens, because weights are shares of one row; that of a target word
    is the mean over its tokens, because each of them has a whole row.

    Args:
        weights: [..., target, source].
        target_words, source_words: cover all tokens in order, each token once.

    Returns:
        [..., target word, source word].
    """
    return merge_targets(_sum_runs(weights, source_words, axis=-1), target_words)


def merge_targets(weights: Weights, target_words: Sequence[Run]) -> Weights:
    """Merge the target only, as `merge_words` does: [..., target, source] to [..., target word, source]."""
    counts = np.array([word.token_count for word in target_words], dtype=np.float32)
    return _sum_runs(weights, target_words, axis=-2) / counts[:, None]


def _sum_runs(weights: Weights, runs: Sequence[Run], *, axis: int) -> Weights:
    if not runs:
        return np.take(weights, [], axis=axis)
    return np.add.reduceat(weights, [run.first_token for run in runs], axis=axis, dtype=np.float32)


def link_words(weights: Weights) -> list[Link]:
    """Link each target word to the source word with the largest weight.

    Args:
        weights: [target word, source word], the end of sentence being the last source word. It is not a candidate, so
            that a link always names a real word.

    Returns:
        At most one link for each target word, in order; none where all attention is on the end of sentence. Ties go to
        the first source word.
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
    """Return the largest weights of each row, in descending order, and their columns; ties go to the first.

    Args:
        weights: [..., source], with at most 65536 columns.
        count: at least 1; if it exceeds the number of columns, all are returned.

    Returns:
        Weights and columns, both [..., min(count, source)].
    """
    columns = np.argsort(-weights, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(weights, columns, axis=-1), columns.astype(np.uint16)


def encode_weights(weights: Weights, encoding: Encoding) -> bytes:
    """Encode weights from 0 to 1 as row-major bytes; UINT8 holds round(255 * weight)."""
    match encoding:
        case Encoding.FLOAT32:
            return weights.astype("<f4").tobytes()
        case Encoding.FLOAT16:
            return weights.astype("<f2").tobytes()
        case Encoding.UINT8:
            # A sum may exceed 1 by a rounding error, which must not wrap around to 0.
            return np.rint(np.clip(weights, 0, 1) * 255).astype(np.uint8).tobytes()


def encode_columns(columns: NDArray[np.uint16]) -> bytes:
    """Encode columns as row-major uint16."""
    return columns.astype("<u2").tobytes()

"""Writes what answers to texts and to pictures share: hypotheses, attention, timing, the model, errors of items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.contract.bundle import LoadedBundle
from regard.server.errors import InvalidRequest, RegardError
from regard.server.request import FinishReason, Hypothesis, Timing, Weights
from regard.server.services.alignment import (
    Encoding,
    encode_columns,
    encode_weights,
    keep_largest,
    mean_of_heads,
    select_heads,
)
from regard.server.services.attention_options import AttentionOptions
from regard.server.text.tokenization import RenderedTarget
from regard.server.text.word_grouping import Word
from regard.v1 import attention_pb2, decoding_pb2

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_FINISH_REASONS = {
    FinishReason.END: decoding_pb2.FINISH_REASON_END,
    FinishReason.LENGTH: decoding_pb2.FINISH_REASON_LENGTH,
    FinishReason.FORCED: decoding_pb2.FINISH_REASON_FORCED,
}
_ENCODINGS = {
    Encoding.FLOAT32: attention_pb2.ATTENTION_ENCODING_FLOAT32,
    Encoding.FLOAT16: attention_pb2.ATTENTION_ENCODING_FLOAT16,
    Encoding.UINT8: attention_pb2.ATTENTION_ENCODING_UINT8,
}


def write_model(bundle: LoadedBundle) -> decoding_pb2.ModelReference:
    """Write which model answered."""
    return decoding_pb2.ModelReference(
        name=bundle.key.name, version=bundle.key.version, digest=bundle.digest, profile=bundle.profile
    )


def write_item_error(error: RegardError, *, code: int, field: str) -> decoding_pb2.ItemError:
    """Write why one item of several failed.

    Args:
        error: what happened.
        code: a google.rpc.Code.
        field: of the item, unless the error names a more precise one.
    """
    if isinstance(error, InvalidRequest):
        return decoding_pb2.ItemError(code=code, message=error.description, field=error.field)
    return decoding_pb2.ItemError(code=code, message=str(error), field=field)


# Messages are filled in place, field by field, which takes half as long as building parts and copying them together.


def fill_timing(reply: decoding_pb2.Timing, timing: Timing) -> None:
    """Write how long each phase took.

    Raises:
        ValueError: a number is not finite.
    """
    reply.queue_seconds = _finite(timing.queue_seconds)
    reply.encode_seconds = _finite(timing.encode_seconds)
    reply.decode_seconds = _finite(timing.decode_seconds)
    reply.steps = timing.steps
    reply.mean_batch_rows = _finite(timing.mean_batch_rows)


def fill_hypothesis(reply: decoding_pb2.Hypothesis, hypothesis: Hypothesis, target: RenderedTarget) -> None:
    """Write a hypothesis, except for its attention.

    Raises:
        ValueError: a number is not finite.
    """
    reply.text = target.text
    reply.score = _finite(hypothesis.score)
    reply.finish_reason = _FINISH_REASONS[hypothesis.finish_reason]
    reply.end_log_probability = _finite(hypothesis.end_log_probability)
    for token, value in zip(target.tokens, all_finite(hypothesis.log_probabilities).tolist(), strict=True):
        reply.tokens.add(
            id=token.id, piece=token.piece, span={"start": token.start, "end": token.end}, log_probability=value
        )
    fill_words(reply.words, target.words)


def fill_words(reply: RepeatedCompositeFieldContainer[attention_pb2.Word], words: Sequence[Word]) -> None:
    """Write the words of a text."""
    for word in words:
        reply.add(
            span={"start": word.start, "end": word.end}, first_token=word.first_token, token_count=word.token_count
        )


def fill_weights(
    reply: attention_pb2.Attention,
    weights: Weights,
    options: AttentionOptions,
    *,
    axes: Sequence[str],
    shape: Sequence[int],
    largest: str,
) -> None:
    """Write attention weights [..., source] in the form that a caller asked for.

    Args:
        axes, shape: names and sizes of the axes that the last one stands for.
        largest: name of the last axis if only the largest weights are kept.
    """
    if options.top_k is not None:
        weights, columns = keep_largest(weights, options.top_k)
        reply.indices = encode_columns(columns)
        axes, shape = (largest,), (weights.shape[-1],)
    reply.axes.extend(("layer", "head", "target", *axes) if options.keep_heads else ("target", *axes))
    if options.keep_heads:
        reply.layers.extend(options.layers or ())
        reply.heads.extend(options.heads or ())
    reply.shape.extend((*weights.shape[:-1], *shape))
    fill_values(reply, weights, options.encoding)


def fill_values(reply: attention_pb2.Attention, weights: Weights, encoding: Encoding) -> None:
    """Write the values of attention weights of any shape."""
    reply.encoding = _ENCODINGS[encoding]
    reply.values = encode_weights(weights, encoding)


def selected_weights(hypothesis: Hypothesis, options: AttentionOptions) -> Weights:
    """Return attention of the selected layers and heads: [target, source] or [layer, head, target, source].

    Raises:
        ValueError: a number is not finite, or layers and heads were not kept.
    """
    if options.layers is None or options.heads is None:
        return all_finite(hypothesis.alignment)
    if hypothesis.attention is None:
        raise ValueError("layers and heads of attention were asked for but not kept")
    chosen = select_heads(all_finite(hypothesis.attention), options.layers, options.heads)
    return chosen if options.keep_heads else mean_of_heads(chosen)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"a result holds {value}")
    return value


def all_finite(weights: Weights) -> Weights:
    """Return the weights unchanged.

    Raises:
        ValueError: one of them is not finite; NaN never leaves the server as an answer.
    """
    if not np.isfinite(weights).all():
        raise ValueError("a result holds numbers that are not finite")
    return weights

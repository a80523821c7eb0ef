"""Writes replies: decode results and spans to protobuf.

It does not know requests on the wire, queues or threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.v1 import attention_pb2, decoding_pb2, translation_pb2
from server.alignment import (
    Encoding,
    choose_heads,
    encode_columns,
    encode_weights,
    keep_largest,
    link_words,
    mean_of_heads,
    merge_words,
)
from server.bundle import LoadedBundle
from server.errors import InvalidRequest, RegardError
from server.messages import AttentionChoice
from server.request import DecodeResult, FinishReason, Hypothesis, Timing, Weights
from server.text import EncodedTarget, RenderedTarget, SourceSegment, TextPipeline
from server.words import Word

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
    """Say which model answered."""
    return decoding_pb2.ModelReference(
        name=bundle.key.name, version=bundle.key.version, digest=bundle.digest, profile=bundle.profile
    )


def write_translation(
    text: str,
    segments: Sequence[SourceSegment],
    results: Sequence[DecodeResult],
    *,
    pipeline: TextPipeline,
    bundle: LoadedBundle,
    attention: AttentionChoice | None,
) -> translation_pb2.TranslationResult:
    """Write the answer to one text; without segments it is empty.

    Args:
        text: as it was sent.
        segments: of the text.
        results: one for each segment that is `known`, in order. The others get an empty hypothesis.
        pipeline: turns ids into text.
        bundle: the model that answered.
        attention: what to send of it, or None for alignments only.

    Raises:
        ValueError: a number in a result is not finite, or there are too many or too few results.
    """
    answers = iter(results)
    reply = translation_pb2.TranslationResult()
    best: list[str] = []
    for segment in segments:
        result = next(answers, None) if segment.known else _nothing(segment, bundle)
        if result is None:
            raise ValueError("there are fewer results than segments")
        filled = reply.segments.add()
        _fill_segment(filled, segment, result.timing)
        for hypothesis in result.hypotheses:
            target = pipeline.render(hypothesis.tokens)
            _fill_hypothesis(filled.hypotheses.add(), segment, hypothesis, target, attention)
        best.append(filled.hypotheses[0].text)
    if next(answers, None) is not None:
        raise ValueError("there are more results than segments")
    reply.text = pipeline.join(text, segments, best)
    return reply


def write_score(
    segment: SourceSegment,
    target: EncodedTarget,
    result: DecodeResult,
    *,
    attention: AttentionChoice | None,
) -> translation_pb2.ScoreResult:
    """Write the score of one given target.

    Raises:
        ValueError: a number in the result is not finite.
    """
    reply = translation_pb2.ScoreResult()
    _fill_segment(reply.segment, segment, result.timing)
    _fill_hypothesis(reply.segment.hypotheses.add(), segment, result.hypotheses[0], target.rendered, attention)
    return reply


def write_item_error(error: RegardError, *, code: int, field: str) -> decoding_pb2.ItemError:
    """Say why one text of many failed.

    Args:
        error: what happened.
        code: of google.rpc.Code.
        field: of the item; the error may know better.
    """
    if isinstance(error, InvalidRequest):
        return decoding_pb2.ItemError(code=code, message=error.description, field=error.field)
    return decoding_pb2.ItemError(code=code, message=str(error), field=field)


def _nothing(segment: SourceSegment, bundle: LoadedBundle) -> DecodeResult:
    """The answer to a segment that no model was asked about: no tokens, whose probability is 1."""
    width = len(segment.ids)
    return DecodeResult(
        hypotheses=(
            Hypothesis(
                tokens=np.zeros(0, dtype=np.int64),
                log_probabilities=np.zeros(0, dtype=np.float32),
                end_log_probability=0.0,
                score=0.0,
                finish_reason=FinishReason.END,
                alignment=np.zeros((0, width if bundle.layers else 0), dtype=np.float32),
                attention=np.zeros((bundle.layers, bundle.heads, 0, width), dtype=np.float32),
            ),
        ),
        timing=Timing(queue_seconds=0.0, encode_seconds=0.0, decode_seconds=0.0, steps=0, mean_batch_rows=0.0),
    )


# Messages are filled in place, field by field: that takes half of the time of making parts and putting them together.


def _fill_segment(reply: translation_pb2.Segment, segment: SourceSegment, timing: Timing) -> None:
    reply.source_span.start, reply.source_span.end = segment.start, segment.end
    for token in segment.tokens:
        reply.source_tokens.add(id=token.id, piece=token.piece, span={"start": token.start, "end": token.end})
    _fill_words(reply.source_words, segment.words)
    reply.timing.queue_seconds = _finite(timing.queue_seconds)
    reply.timing.encode_seconds = _finite(timing.encode_seconds)
    reply.timing.decode_seconds = _finite(timing.decode_seconds)
    reply.timing.steps = timing.steps
    reply.timing.mean_batch_rows = _finite(timing.mean_batch_rows)


def _fill_hypothesis(
    reply: decoding_pb2.Hypothesis,
    segment: SourceSegment,
    hypothesis: Hypothesis,
    target: RenderedTarget,
    choice: AttentionChoice | None,
) -> None:
    reply.text = target.text
    reply.score = _finite(hypothesis.score)
    reply.finish_reason = _FINISH_REASONS[hypothesis.finish_reason]
    reply.end_log_probability = _finite(hypothesis.end_log_probability)
    for token, value in zip(target.tokens, _all_finite(hypothesis.log_probabilities).tolist(), strict=True):
        reply.tokens.add(
            id=token.id, piece=token.piece, span={"start": token.start, "end": token.end}, log_probability=value
        )
    _fill_words(reply.words, target.words)
    if hypothesis.alignment.shape[1]:
        by_word = merge_words(_all_finite(hypothesis.alignment), target.words, segment.words)
        for link in link_words(by_word):
            source, written = segment.words[link.source_word], target.words[link.target_word]
            reply.alignments.add(
                source_word=link.source_word,
                target_word=link.target_word,
                source_span={"start": source.start, "end": source.end},
                target_span={"start": written.start, "end": written.end},
                weight=link.weight,
            )
    if choice is not None:
        _fill_attention(reply.attention, segment, hypothesis, target, choice)


def _fill_words(reply: RepeatedCompositeFieldContainer[attention_pb2.Word], words: Sequence[Word]) -> None:
    for word in words:
        reply.add(
            span={"start": word.start, "end": word.end}, first_token=word.first_token, token_count=word.token_count
        )


def _fill_attention(
    reply: attention_pb2.Attention,
    segment: SourceSegment,
    hypothesis: Hypothesis,
    target: RenderedTarget,
    choice: AttentionChoice,
) -> None:
    weights = _choose(hypothesis, choice)
    if choice.by_word:
        weights = merge_words(weights, target.words, segment.words)
    if choice.top_k is not None:
        weights, columns = keep_largest(weights, choice.top_k)
        reply.indices = encode_columns(columns)
    reply.axes.extend(("layer", "head", "target", "source") if choice.keep_heads else ("target", "source"))
    if choice.keep_heads:
        reply.layers.extend(choice.layers or ())
        reply.heads.extend(choice.heads or ())
    reply.shape.extend(weights.shape)
    reply.encoding = _ENCODINGS[choice.encoding]
    reply.values = encode_weights(weights, choice.encoding)


def _choose(hypothesis: Hypothesis, choice: AttentionChoice) -> Weights:
    if choice.layers is None or choice.heads is None:
        return _all_finite(hypothesis.alignment)
    if hypothesis.attention is None:
        raise ValueError("layers and heads of attention were asked for but not kept")
    chosen = choose_heads(_all_finite(hypothesis.attention), choice.layers, choice.heads)
    return chosen if choice.keep_heads else mean_of_heads(chosen)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"a result holds {value}")
    return value


def _all_finite(weights: Weights) -> Weights:
    if not np.isfinite(weights).all():
        raise ValueError("a result holds numbers that are not finite")
    return weights

"""Writes the answer to one text or pair: segments, hypotheses, alignments and attention to protobuf."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.contract.bundle import LoadedBundle
from regard.server.request import DecodeResult, FinishReason, Hypothesis, Timing
from regard.server.services.alignment import link_words, merge_words
from regard.server.services.attention_options import AttentionOptions
from regard.server.services.hypothesis_messages import (
    all_finite,
    fill_hypothesis,
    fill_timing,
    fill_weights,
    fill_words,
    selected_weights,
)
from regard.server.text.tokenization import EncodedTarget, RenderedTarget, SourceSegment, TextPipeline
from regard.v1 import attention_pb2, decoding_pb2, translation_pb2


def write_translation(
    text: str,
    segments: Sequence[SourceSegment],
    results: Sequence[DecodeResult],
    *,
    pipeline: TextPipeline,
    bundle: LoadedBundle,
    attention: AttentionOptions | None,
) -> translation_pb2.TranslationResult:
    """Write the answer to one text; without segments it is empty.

    Args:
        text: as the caller sent it.
        segments: of the text.
        results: one for each segment that is `known`, in order. The others get an empty hypothesis.
        pipeline: renders ids as text.
        bundle: the model that answered.
        attention: which attention to send; None for alignments only.

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
            target = pipeline.render(hypothesis.tokens, capitals=segment.capitals)
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
    attention: AttentionOptions | None,
) -> translation_pb2.ScoreResult:
    """Write the score of one given target.

    Raises:
        ValueError: a number in the result is not finite.
    """
    reply = translation_pb2.ScoreResult()
    _fill_segment(reply.segment, segment, result.timing)
    _fill_hypothesis(reply.segment.hypotheses.add(), segment, result.hypotheses[0], target.rendered, attention)
    return reply


def _nothing(segment: SourceSegment, bundle: LoadedBundle) -> DecodeResult:
    """The answer to a segment that was not decoded: no tokens, with probability 1."""
    width = len(segment.ids)
    return DecodeResult(
        hypotheses=(
            Hypothesis(
                tokens=np.zeros(0, dtype=np.int64),
                log_probabilities=np.zeros(0, dtype=np.float32),
                end_log_probability=0.0,
                score=0.0,
                finish_reason=FinishReason.END,
                alignment=np.zeros((0, width if bundle.ports.layers else 0), dtype=np.float32),
                attention=np.zeros((bundle.ports.layers, bundle.ports.heads, 0, width), dtype=np.float32),
            ),
        ),
        timing=Timing(queue_seconds=0.0, encode_seconds=0.0, decode_seconds=0.0, steps=0, mean_batch_rows=0.0),
    )


def _fill_segment(reply: translation_pb2.Segment, segment: SourceSegment, timing: Timing) -> None:
    reply.source_span.start, reply.source_span.end = segment.start, segment.end
    for token in segment.tokens:
        reply.source_tokens.add(id=token.id, piece=token.piece, span={"start": token.start, "end": token.end})
    fill_words(reply.source_words, segment.words)
    fill_timing(reply.timing, timing)


def _fill_hypothesis(
    reply: decoding_pb2.Hypothesis,
    segment: SourceSegment,
    hypothesis: Hypothesis,
    target: RenderedTarget,
    options: AttentionOptions | None,
) -> None:
    fill_hypothesis(reply, hypothesis, target)
    if hypothesis.alignment.shape[1]:
        by_word = merge_words(all_finite(hypothesis.alignment), target.words, segment.words)
        for link in link_words(by_word):
            source, written = segment.words[link.source_word], target.words[link.target_word]
            reply.alignments.add(
                source_word=link.source_word,
                target_word=link.target_word,
                source_span={"start": source.start, "end": source.end},
                target_span={"start": written.start, "end": written.end},
                weight=link.weight,
            )
    if options is not None:
        _fill_attention(reply.attention, segment, hypothesis, target, options)


def _fill_attention(
    reply: attention_pb2.Attention,
    segment: SourceSegment,
    hypothesis: Hypothesis,
    target: RenderedTarget,
    options: AttentionOptions,
) -> None:
    weights = selected_weights(hypothesis, options)
    if options.by_word:
        weights = merge_words(weights, target.words, segment.words)
    fill_weights(reply, weights, options, axes=("source",), shape=weights.shape[-1:], largest="source")

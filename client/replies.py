"""Turns reply messages into the dataclasses of `client.results`, attention into arrays.

Does not know how a reply was got; refuses one that contradicts itself instead of guessing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from google.protobuf.json_format import MessageToDict
from numpy.typing import NDArray

from client.errors import UnreadableReply
from client.results import (
    Alignment,
    Attention,
    FinishReason,
    Granularity,
    Hypothesis,
    ItemError,
    Model,
    ModelDetails,
    ModelReference,
    Score,
    Segment,
    Span,
    Timing,
    Token,
    Translation,
    Word,
)
from regard.v1 import attention_pb2, decoding_pb2, model_pb2, translation_pb2

_FINISH_REASONS: dict[int, FinishReason] = {
    decoding_pb2.FINISH_REASON_END: "end",
    decoding_pb2.FINISH_REASON_LENGTH: "length",
    decoding_pb2.FINISH_REASON_FORCED: "forced",
}
_STORED_TYPES: dict[int, str] = {
    attention_pb2.ATTENTION_ENCODING_UNSPECIFIED: "<f4",
    attention_pb2.ATTENTION_ENCODING_FLOAT32: "<f4",
    attention_pb2.ATTENTION_ENCODING_FLOAT16: "<f2",
    attention_pb2.ATTENTION_ENCODING_UINT8: "u1",
}


def translations(
    request: translation_pb2.TranslateRequest, reply: translation_pb2.TranslateResponse
) -> tuple[Translation, ...]:
    """Return one translation for each text of the request, in order.

    Raises:
        UnreadableReply: the reply does not belong to the request, or contradicts itself.
    """
    expect_results(len(reply.results), len(request.texts))
    model = _reference(reply.model)
    granularity = _granularity(request.attention)
    return tuple(
        _translation(result, text, model, granularity)
        for text, result in zip(request.texts, reply.results, strict=True)
    )


def translation(text: str, reply: translation_pb2.TranslateResponse, granularity: Granularity) -> Translation:
    """Return the translation of a text from a reply that holds it alone; `granularity` is that of its attention.

    Raises:
        UnreadableReply: the reply does not belong to the text, or contradicts itself.
    """
    expect_results(len(reply.results), 1)
    return _translation(reply.results[0], text, _reference(reply.model), granularity)


def scores(
    request: translation_pb2.ScoreTranslationRequest, reply: translation_pb2.ScoreTranslationResponse
) -> tuple[Score, ...]:
    """Return one score for each pair of the request, in order.

    Raises:
        UnreadableReply: the reply does not belong to the request, or contradicts itself.
    """
    expect_results(len(reply.results), len(request.pairs))
    model = _reference(reply.model)
    granularity = _granularity(request.attention)
    return tuple(
        Score(
            segment=_segment(result.segment, pair.source.encode(), granularity) if result.HasField("segment") else None,
            error=_item_error(result.error) if result.HasField("error") else None,
            model=model,
        )
        for pair, result in zip(request.pairs, reply.results, strict=True)
    )


def models(reply: model_pb2.ListModelsResponse) -> tuple[Model, ...]:
    """Return the models in the order of the reply."""
    return tuple(_model(model) for model in reply.models)


def model_details(reply: model_pb2.GetModelResponse) -> ModelDetails:
    """Return one model with its manifest."""
    return ModelDetails(model=_model(reply.model), manifest=MessageToDict(reply.bundle))


def expect_results(got: int, wanted: int) -> None:
    """Refuse a reply with too few or too many results."""
    if got != wanted:
        raise UnreadableReply(f"the server sent {got} results for {wanted} texts")


def _translation(
    result: translation_pb2.TranslationResult, text: str, model: ModelReference, granularity: Granularity
) -> Translation:
    return Translation(
        text=result.text,
        segments=tuple(_segment(segment, text.encode(), granularity) for segment in result.segments),
        error=_item_error(result.error) if result.HasField("error") else None,
        model=model,
    )


def _model(message: model_pb2.Model) -> Model:
    return Model(
        name=message.name,
        version=message.version,
        digest=message.digest,
        source_languages=tuple(message.source_languages),
        target_languages=tuple(message.target_languages),
        profile=message.profile,
        is_default=message.is_default,
        description=message.description,
    )


def _reference(message: decoding_pb2.ModelReference) -> ModelReference:
    return ModelReference(name=message.name, version=message.version, digest=message.digest, profile=message.profile)


def _item_error(message: decoding_pb2.ItemError) -> ItemError:
    return ItemError(code=message.code, message=message.message, field=message.field)


def _segment(message: translation_pb2.Segment, source: bytes, granularity: Granularity) -> Segment:
    words = _words(message.source_words, source)
    tokens = _tokens(message.source_tokens, source)
    columns = len(words) if granularity == "word" else len(tokens)
    return Segment(
        text=_cut(source, message.source_span),
        source_span=_span(message.source_span),
        source_tokens=tokens,
        source_words=words,
        hypotheses=tuple(
            _hypothesis(hypothesis, source, len(words), granularity, columns) for hypothesis in message.hypotheses
        ),
        timing=Timing(
            queue_seconds=message.timing.queue_seconds,
            encode_seconds=message.timing.encode_seconds,
            decode_seconds=message.timing.decode_seconds,
            steps=message.timing.steps,
            mean_batch_rows=message.timing.mean_batch_rows,
        ),
    )


def _hypothesis(
    message: decoding_pb2.Hypothesis, source: bytes, source_words: int, granularity: Granularity, columns: int
) -> Hypothesis:
    target = message.text.encode()
    words = _words(message.words, target)
    tokens = _tokens(message.tokens, target)
    for alignment in message.alignments:
        if not (0 <= alignment.source_word < source_words and 0 <= alignment.target_word < len(words)):
            raise UnreadableReply("the server sent an alignment to a word that it did not send")
    attention = None
    if message.HasField("attention"):
        rows = len(words) if granularity == "word" else len(tokens)
        attention = _attention(message.attention, granularity, rows, columns)
    return Hypothesis(
        text=message.text,
        score=message.score,
        finish_reason=_FINISH_REASONS.get(message.finish_reason, "end"),
        tokens=tokens,
        words=words,
        end_log_probability=message.end_log_probability,
        alignments=tuple(
            Alignment(
                source_word=alignment.source_word,
                target_word=alignment.target_word,
                source_text=_cut(source, alignment.source_span),
                target_text=_cut(target, alignment.target_span),
                source_span=_span(alignment.source_span),
                target_span=_span(alignment.target_span),
                weight=alignment.weight,
            )
            for alignment in message.alignments
        ),
        attention=attention,
    )


def _tokens(messages: Iterable[attention_pb2.Token], text: bytes) -> tuple[Token, ...]:
    return tuple(
        Token(
            id=token.id,
            piece=token.piece,
            text=_cut(text, token.span),
            span=_span(token.span),
            log_probability=token.log_probability if token.HasField("log_probability") else None,
        )
        for token in messages
    )


def _words(messages: Iterable[attention_pb2.Word], text: bytes) -> tuple[Word, ...]:
    return tuple(
        Word(
            text=_cut(text, word.span),
            span=_span(word.span),
            first_token=word.first_token,
            token_count=word.token_count,
        )
        for word in messages
    )


def _span(message: attention_pb2.Span) -> Span:
    return Span(message.start, message.end)


def _cut(text: bytes, span: attention_pb2.Span) -> str:
    if not 0 <= span.start <= span.end <= len(text):
        raise UnreadableReply(f"the server sent the span [{span.start}, {span.end}) of a text of {len(text)} bytes")
    # A byte-level subword may end inside a character; what is cut off shows as U+FFFD.
    return text[span.start : span.end].decode(errors="replace")


def _granularity(options: attention_pb2.AttentionOptions) -> Granularity:
    return "word" if options.granularity == attention_pb2.ATTENTION_GRANULARITY_WORD else "subword"


def _attention(message: attention_pb2.Attention, granularity: Granularity, rows: int, columns: int) -> Attention:
    shape = tuple(message.shape)
    if message.encoding not in _STORED_TYPES:
        raise UnreadableReply(f"the server sent attention in the unknown encoding {message.encoding}")
    if len(shape) != len(message.axes) or tuple(message.axes[-2:]) != ("target", "source"):
        raise UnreadableReply(f"the server sent attention of shape {shape} with axes {list(message.axes)}")
    if shape[-2] != rows or (not message.indices and shape[-1] != columns):
        raise UnreadableReply(
            f"the server sent attention of shape {shape} for {rows} target and {columns} source positions"
        )
    weights = _array(message.values, _STORED_TYPES[message.encoding], shape).astype(np.float32)
    if message.encoding == attention_pb2.ATTENTION_ENCODING_UINT8:
        weights /= np.float32(255)
    if message.indices:
        weights = _spread(weights, _array(message.indices, "<u2", shape), columns)
    return Attention(
        weights=weights,
        axes=tuple(message.axes),
        granularity=granularity,
        layers=tuple(message.layers),
        heads=tuple(message.heads),
    )


def _array(data: bytes, stored_type: str, shape: Sequence[int]) -> NDArray[np.generic]:
    dtype = np.dtype(stored_type)
    if any(size < 0 for size in shape) or len(data) != dtype.itemsize * math.prod(shape):
        raise UnreadableReply(f"the server sent {len(data)} bytes of attention for the shape {tuple(shape)}")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _spread(weights: NDArray[np.float32], indices: NDArray[np.generic], columns: int) -> NDArray[np.float32]:
    """Put the k weights of every row at their columns, zeros elsewhere."""
    if indices.size and int(indices.max()) >= columns:
        raise UnreadableReply(f"the server sent a weight for column {indices.max()} of {columns}")
    spread = np.zeros((*weights.shape[:-1], columns), dtype=np.float32)
    np.put_along_axis(spread, indices.astype(np.int64), weights, axis=-1)
    return spread

"""Reads what all decoding answers: hypotheses, tokens, words, timing, who answered, what failed.

Does not know what the source was: it may be a text or a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from regard.client.errors import UnreadableReply
from regard.client.results import (
    Alignment,
    FinishReason,
    Granularity,
    Hypothesis,
    ItemError,
    ModelReference,
    Span,
    Timing,
    Token,
    Word,
)
from regard.client.weights import read_attention
from regard.v1 import attention_pb2, decoding_pb2

_FINISH_REASONS: dict[int, FinishReason] = {
    decoding_pb2.FINISH_REASON_END: "end",
    decoding_pb2.FINISH_REASON_LENGTH: "length",
    decoding_pb2.FINISH_REASON_FORCED: "forced",
}


def read_hypothesis(
    message: decoding_pb2.Hypothesis,
    granularity: Granularity,
    *,
    source_axes: Mapping[str, int],
    source: bytes = b"",
    source_words: int = 0,
) -> Hypothesis:
    """Return a hypothesis.

    Args:
        message: what the server sent.
        granularity: that of its attention.
        source_axes: names and sizes of the axes of the source in its attention.
        source: the text, if it is one.
        source_words: how many words that text has, end of sentence included.

    Raises:
        UnreadableReply: it contradicts itself.
    """
    target = message.text.encode()
    words = read_words(message.words, target)
    tokens = read_tokens(message.tokens, target)
    for alignment in message.alignments:
        if not (0 <= alignment.source_word < source_words and 0 <= alignment.target_word < len(words)):
            raise UnreadableReply("the server sent an alignment to a word that it did not send")
    attention = None
    if message.HasField("attention"):
        targets = len(words) if granularity == "word" else len(tokens)
        attention = read_attention(message.attention, granularity, targets=targets, source=source_axes)
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
                source_text=cut(source, alignment.source_span),
                target_text=cut(target, alignment.target_span),
                source_span=read_span(alignment.source_span),
                target_span=read_span(alignment.target_span),
                weight=alignment.weight,
            )
            for alignment in message.alignments
        ),
        attention=attention,
    )


def read_tokens(messages: Iterable[attention_pb2.Token], text: bytes) -> tuple[Token, ...]:
    """Return tokens with the part of the text that each stands for."""
    return tuple(
        Token(
            id=token.id,
            piece=token.piece,
            text=cut(text, token.span),
            span=read_span(token.span),
            log_probability=token.log_probability if token.HasField("log_probability") else None,
        )
        for token in messages
    )


def read_words(messages: Iterable[attention_pb2.Word], text: bytes) -> tuple[Word, ...]:
    """Return words with the part of the text that each stands for."""
    return tuple(
        Word(
            text=cut(text, word.span),
            span=read_span(word.span),
            first_token=word.first_token,
            token_count=word.token_count,
        )
        for word in messages
    )


def read_span(message: attention_pb2.Span) -> Span:
    """Return a span."""
    return Span(message.start, message.end)


def cut(text: bytes, span: attention_pb2.Span) -> str:
    """Return what stands in a span of the text."""
    if not 0 <= span.start <= span.end <= len(text):
        raise UnreadableReply(f"the server sent the span [{span.start}, {span.end}) of a text of {len(text)} bytes")
    # A byte-level subword may end inside a character; what is cut off shows as U+FFFD.
    return text[span.start : span.end].decode(errors="replace")


def read_timing(message: decoding_pb2.Timing) -> Timing:
    """Return where the time went."""
    return Timing(
        queue_seconds=message.queue_seconds,
        encode_seconds=message.encode_seconds,
        decode_seconds=message.decode_seconds,
        steps=message.steps,
        mean_batch_rows=message.mean_batch_rows,
    )


def read_reference(message: decoding_pb2.ModelReference) -> ModelReference:
    """Return which model answered."""
    return ModelReference(name=message.name, version=message.version, digest=message.digest, profile=message.profile)


def read_item_error(message: decoding_pb2.ItemError) -> ItemError:
    """Return why one of many failed."""
    return ItemError(code=message.code, message=message.message, field=message.field)

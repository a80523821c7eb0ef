"""Validates requests: protobuf messages to frozen options.

Nothing that a caller asks for is silently ignored: a value out of range is refused, and so is a field that this server
does not know.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from regard.contract.bundle import LoadedBundle
from regard.server.bounds import check_count, check_within
from regard.server.bundle.language_choice import choose_language
from regard.server.errors import InvalidRequest
from regard.server.services.alignment import Encoding
from regard.server.services.attention_options import AttentionOptions, read_attention, read_encoder_attention
from regard.server.services.decoding_options import (
    DEFAULT_LENGTH_PENALTY,
    DecodingOptions,
    check_length_penalty,
    read_decoding,
)
from regard.server.settings import Limits
from regard.v1 import captioning_pb2, translation_pb2

MAX_PRIORITY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateOptions:
    """A validated TranslateRequest, except for its texts: these are checked one by one, because a bad one fails alone.

    Attributes:
        end_id: token that ends every source; in a model of several languages it selects the target language.
    """

    texts: tuple[str, ...]
    end_id: int
    decoding: DecodingOptions
    attention: AttentionOptions | None
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """A validated ScoreTranslationRequest: pairs of source and target, and the token that ends every source."""

    pairs: tuple[tuple[str, str], ...]
    end_id: int
    length_penalty: float
    attention: AttentionOptions | None
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionOptions:
    """A validated CaptionRequest, except for its pictures: these are read one by one, because a bad one fails alone.

    Attributes:
        encoder_attention: encoding of the encoder's self-attention; None to send none.
    """

    decoding: DecodingOptions
    attention: AttentionOptions | None
    encoder_attention: Encoding | None
    priority: int


def read_translate_request(
    request: translation_pb2.TranslateRequest, *, bundle: LoadedBundle, limits: Limits
) -> TranslateOptions:
    """Validate all options of a request against the limits of the server and of the model. It may have no texts.

    Raises:
        InvalidRequest: names the field, the limit and what was sent.
        UnsupportedByModel: attention is asked for and the model has none.
    """
    check_count("texts", len(request.texts), limits.max_texts)
    refuse_unknown_fields(request)
    return TranslateOptions(
        texts=tuple(request.texts),
        end_id=_read_target_language(request, bundle),
        decoding=read_decoding(request.decoding, bundle=bundle, limits=limits),
        attention=read_attention(request.attention, bundle) if request.HasField("attention") else None,
        priority=_read_priority(request.priority),
    )


def read_score_request(
    request: translation_pb2.ScoreTranslationRequest, *, bundle: LoadedBundle, limits: Limits
) -> ScoreOptions:
    """As `read_translate_request`."""
    # First of all, because the check for unknown fields goes through every pair.
    check_count("pairs", len(request.pairs), limits.max_texts)
    refuse_unknown_fields(request)
    end_id = _read_target_language(request, bundle)
    penalty = request.length_penalty if request.HasField("length_penalty") else DEFAULT_LENGTH_PENALTY
    check_length_penalty("length_penalty", penalty)
    return ScoreOptions(
        pairs=tuple((pair.source, pair.target) for pair in request.pairs),
        end_id=end_id,
        length_penalty=penalty,
        attention=read_attention(request.attention, bundle) if request.HasField("attention") else None,
        priority=_read_priority(request.priority),
    )


def read_caption_request(
    request: captioning_pb2.CaptionRequest, *, bundle: LoadedBundle, limits: Limits
) -> CaptionOptions:
    """As `read_translate_request`. The request may have no pictures."""
    check_count("images", len(request.images), limits.max_images)
    refuse_unknown_fields(request)
    wanted = request.HasField("encoder_attention")
    return CaptionOptions(
        decoding=read_decoding(request.decoding, bundle=bundle, limits=limits),
        attention=read_attention(request.attention, bundle) if request.HasField("attention") else None,
        encoder_attention=read_encoder_attention(request.encoder_attention, bundle) if wanted else None,
        priority=_read_priority(request.priority),
    )


def _read_priority(priority: int) -> int:
    check_within("priority", priority, -MAX_PRIORITY, MAX_PRIORITY)
    return priority


def check_text(text: str, *, field: str, limits: Limits) -> None:
    """Raise if a text is too long, before anything else is done with it.

    Raises:
        InvalidRequest: the text is too long (the message names field, limit and actual bytes) or not valid Unicode.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(field, f"is not valid Unicode: unpaired surrogate at character {error.start}") from None
    if size > limits.max_text_bytes:
        raise InvalidRequest(field, f"has {size} bytes; the limit is {limits.max_text_bytes}")


def refuse_unknown_fields(message: Message, path: str = "") -> None:
    """Raise if a request has fields that this server does not know, which protobuf itself would ignore.

    Raises:
        InvalidRequest: names the message and the field number.
    """
    unknown = UnknownFieldSet(message)
    if len(unknown):
        raise InvalidRequest(
            path or "request", f"has field number {unknown[0].field_number}, which this server does not know"
        )
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        name = f"{path}.{descriptor.name}" if path else descriptor.name
        if isinstance(value, Message):
            refuse_unknown_fields(value, name)
        else:
            for index, item in enumerate(value):
                refuse_unknown_fields(item, f"{name}[{index}]")


def _read_target_language(
    request: translation_pb2.TranslateRequest | translation_pb2.ScoreTranslationRequest, bundle: LoadedBundle
) -> int:
    """Return the token that ends a source; it selects the requested target language, by default the model's first."""
    offered = bundle.manifest.target_languages
    if request.HasField("target_language"):
        language = choose_language(request.target_language, offered, field="target_language", model=bundle.key.name)
    else:
        language = next(iter(offered), "")
    return bundle.target_end_ids.get(language, bundle.eos_id)

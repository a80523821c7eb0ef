"""Makes request messages from plain Python arguments.

Does not know the limits of any server, which checks them itself; refuses only what could never be sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from regard.client.results import Granularity
from regard.v1 import attention_pb2, captioning_pb2, decoding_pb2, translation_pb2

Reduction = Literal["alignment", "mean", "none"]
Encoding = Literal["float32", "float16", "uint8"]

DEFAULT_TIMEOUT = 60.0  # seconds that a call may take, retries included

_GRANULARITIES: dict[str, attention_pb2.AttentionGranularity.ValueType] = {
    "subword": attention_pb2.ATTENTION_GRANULARITY_SUBWORD,
    "word": attention_pb2.ATTENTION_GRANULARITY_WORD,
}
_REDUCTIONS: dict[str, attention_pb2.AttentionReduction.ValueType] = {
    "alignment": attention_pb2.ATTENTION_REDUCTION_ALIGNMENT,
    "mean": attention_pb2.ATTENTION_REDUCTION_MEAN,
    "none": attention_pb2.ATTENTION_REDUCTION_NONE,
}
_ENCODINGS: dict[str, attention_pb2.AttentionEncoding.ValueType] = {
    "float32": attention_pb2.ATTENTION_ENCODING_FLOAT32,
    "float16": attention_pb2.ATTENTION_ENCODING_FLOAT16,
    "uint8": attention_pb2.ATTENTION_ENCODING_UINT8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionQuery:
    """Which attention to return.

    Attributes:
        granularity: positions are `word`s or `subword`s.
        reduction: `alignment` is the mean over the heads that align best, `mean` that of the chosen layers and heads,
            `none` returns each of them.
        layers: which layers, counted from 0; empty means all. Not with `alignment`.
        heads: which heads, likewise.
        encoding: how weights travel; they always arrive as float32.
        top_k: keep only the k largest weights of each row.
    """

    granularity: Granularity = "word"
    reduction: Reduction = "alignment"
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    encoding: Encoding = "float32"
    top_k: int | None = None

    def __post_init__(self) -> None:
        _choice("granularity", self.granularity, _GRANULARITIES)
        _choice("reduction", self.reduction, _REDUCTIONS)
        _choice("encoding", self.encoding, _ENCODINGS)


class CallOptions(TypedDict, total=False):
    """What every call can be told; an absent key takes the default of the server.

    Keys:
        model: name of the model.
        version: version of the model; absent means the newest.
        length_penalty: exponent of the length in the score; 0 favours short answers.
        attention: `"word"`, `"subword"` or an `AttentionQuery`; absent or None sends no matrices.
        priority: -10 to 10; higher goes first where requests wait, 0 is normal.
    """

    model: str
    version: str
    length_penalty: float | None
    attention: AttentionQuery | Granularity | None
    priority: int


class SearchOptions(CallOptions, total=False):
    """What every call that searches for an answer can be told, besides the keys of `CallOptions`.

    Keys:
        beam_size: hypotheses kept at every step; 1 is greedy search.
        n_best: hypotheses returned, best first; at most `beam_size`.
        min_length: fewest target tokens of a sentence.
        max_length: most target tokens of a sentence.
        no_repeat_ngram: no run of this many tokens occurs twice; 0 allows all.
    """

    beam_size: int | None
    n_best: int | None
    min_length: int | None
    max_length: int | None
    no_repeat_ngram: int | None


class ScoreOptions(CallOptions, total=False):
    """What `score` can be told: the keys of `CallOptions`, and `target_language`, a BCP-47 tag."""

    target_language: str | None


class TranslateOptions(SearchOptions, total=False):
    """What `translate` can be told: the keys of `SearchOptions`, and `target_language`, a BCP-47 tag."""

    target_language: str | None


class CaptionOptions(SearchOptions, total=False):
    """What `caption` can be told: the keys of `SearchOptions`, and `encoder_attention`.

    With True or the name of an encoding to send it in, captions have `Caption.encoder_attention`; absent, None or False
    sends none. A server refuses it for a model whose encoder has no self-attention.
    """

    encoder_attention: bool | Encoding | None


def translate_request(texts: Iterable[str], **options: Unpack[TranslateOptions]) -> translation_pb2.TranslateRequest:
    """Make the message of a `translate` call.

    Raises:
        ValueError: a text is not valid Unicode, or an option has a value outside of the wire's own range.
        TypeError: the texts are no list of strings, or an option is unknown or of a wrong type.
    """
    _refuse_unknown(options, TranslateOptions.__optional_keys__)
    if isinstance(texts, str):
        raise TypeError("texts is a list of strings; for one text write [text]")
    return translation_pb2.TranslateRequest(
        model=options.get("model", ""),
        version=options.get("version", ""),
        texts=[_sendable(f"texts[{index}]", text) for index, text in enumerate(texts)],
        target_language=options.get("target_language"),
        decoding=_decoding_options(options),
        attention=_attention_options(options.get("attention")),
        priority=options.get("priority", 0),
    )


def score_request(
    pairs: Iterable[tuple[str, str]], **options: Unpack[ScoreOptions]
) -> translation_pb2.ScoreTranslationRequest:
    """Make the message of a `score` call from (source, target) pairs.

    Raises:
        ValueError: a text is not valid Unicode, or an option has a value outside of the wire's own range.
        TypeError: a pair is no pair of strings, or an option is unknown or of a wrong type.
    """
    _refuse_unknown(options, ScoreOptions.__optional_keys__)
    return translation_pb2.ScoreTranslationRequest(
        model=options.get("model", ""),
        version=options.get("version", ""),
        pairs=[
            translation_pb2.TranslationPair(
                source=_sendable(f"pairs[{index}].source", source), target=_sendable(f"pairs[{index}].target", target)
            )
            for index, (source, target) in enumerate(pairs)
        ],
        target_language=options.get("target_language"),
        length_penalty=options.get("length_penalty"),
        attention=_attention_options(options.get("attention")),
        priority=options.get("priority", 0),
    )


def caption_request(images: Iterable[bytes], **options: Unpack[CaptionOptions]) -> captioning_pb2.CaptionRequest:
    """Make the message of a `caption` call from the bytes of picture files.

    Raises:
        ValueError: an option has a value outside of the wire's own range, or there is no such encoding.
        TypeError: the pictures are no list of bytes, or an option is unknown or of a wrong type.
    """
    _refuse_unknown(options, CaptionOptions.__optional_keys__)
    return captioning_pb2.CaptionRequest(
        model=options.get("model", ""),
        version=options.get("version", ""),
        images=images,
        decoding=_decoding_options(options),
        attention=_attention_options(options.get("attention")),
        encoder_attention=_encoder_attention(options.get("encoder_attention")),
        priority=options.get("priority", 0),
    )


def granularity_asked_for(options: CallOptions) -> Granularity:
    """Return what the rows of the attention are that options ask for."""
    query = options.get("attention")
    return query.granularity if isinstance(query, AttentionQuery) else query or "word"


def _decoding_options(options: SearchOptions) -> decoding_pb2.DecodingOptions:
    return decoding_pb2.DecodingOptions(
        beam_size=options.get("beam_size"),
        n_best=options.get("n_best"),
        length_penalty=options.get("length_penalty"),
        min_length=options.get("min_length"),
        max_length=options.get("max_length"),
        no_repeat_ngram=options.get("no_repeat_ngram"),
    )


def _attention_options(query: AttentionQuery | Granularity | None) -> attention_pb2.AttentionOptions | None:
    if query is None:
        return None
    if isinstance(query, str):
        query = AttentionQuery(granularity=query)
    return attention_pb2.AttentionOptions(
        granularity=_GRANULARITIES[query.granularity],
        reduction=_REDUCTIONS[query.reduction],
        layers=query.layers,
        heads=query.heads,
        encoding=_ENCODINGS[query.encoding],
        top_k=query.top_k,
    )


def _encoder_attention(wanted: bool | Encoding | None) -> attention_pb2.AttentionEncoding.ValueType | None:
    if wanted is None or wanted is False:
        return None
    if wanted is True:
        return _ENCODINGS["float32"]
    _choice("encoder_attention", wanted, _ENCODINGS)
    return _ENCODINGS[wanted]


def _sendable(field: str, text: str) -> str:
    """Refuse what protobuf could not encode, with words that name the place."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{field}: character {error.start} is the lone surrogate U+{ord(text[error.start]):04X}, which no UTF-8 "
            "text can hold; the text was decoded wrongly before it came here"
        ) from None
    return text


def _choice(field: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}; it can be {', '.join(allowed)}")


def _refuse_unknown(options: CallOptions, known: Collection[str]) -> None:
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"no option {unknown[0]!r}; there are {', '.join(sorted(known))}")

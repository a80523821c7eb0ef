"""Reads and validates the attention options of a request, and checks that the model has attention to return."""

from __future__ import annotations

from dataclasses import dataclass

from regard.contract.bundle import LoadedBundle
from regard.server.bounds import check_within
from regard.server.errors import InvalidRequest, UnsupportedByModel
from regard.server.services.alignment import Encoding
from regard.v1 import attention_pb2

_ENCODINGS = {
    attention_pb2.ATTENTION_ENCODING_UNSPECIFIED: Encoding.FLOAT32,
    attention_pb2.ATTENTION_ENCODING_FLOAT32: Encoding.FLOAT32,
    attention_pb2.ATTENTION_ENCODING_FLOAT16: Encoding.FLOAT16,
    attention_pb2.ATTENTION_ENCODING_UINT8: Encoding.UINT8,
}
_BY_WORD = {
    attention_pb2.ATTENTION_GRANULARITY_UNSPECIFIED: False,
    attention_pb2.ATTENTION_GRANULARITY_SUBWORD: False,
    attention_pb2.ATTENTION_GRANULARITY_WORD: True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionOptions:
    """Which attention a caller wants, and in which form.

    Attributes:
        by_word: one row and column per word instead of per token.
        keep_heads: each selected layer and head by itself instead of their mean.
        layers, heads: selected indices; None for the mean over the bundle's alignment heads.
        encoding: of the weights.
        top_k: how many of the largest weights of each row are sent; None for all.
    """

    by_word: bool
    keep_heads: bool
    layers: tuple[int, ...] | None
    heads: tuple[int, ...] | None
    encoding: Encoding
    top_k: int | None

    @property
    def needs_every_head(self) -> bool:
        """Whether the engine must keep layers and heads apart: `DecodeRequest.keep_attention`."""
        return self.layers is not None


def read_encoder_attention(encoding: attention_pb2.AttentionEncoding.ValueType, bundle: LoadedBundle) -> Encoding:
    """Read the encoding in which a caller wants the encoder's self-attention over a picture.

    Raises:
        InvalidRequest: the encoding is unknown.
        UnsupportedByModel: the model has no such attention.
    """
    found = _ENCODINGS.get(encoding)
    if found is None:
        raise InvalidRequest("encoder_attention", f"unknown AttentionEncoding {encoding}")
    if not bundle.shows_encoder_attention:
        raise UnsupportedByModel(
            "NO_ENCODER_ATTENTION", f"the encoder of model {bundle.key.name} has no self-attention to return"
        )
    return found


def read_attention(options: attention_pb2.AttentionOptions, bundle: LoadedBundle) -> AttentionOptions:
    """Read the attention options of a request and validate them against the model.

    Raises:
        InvalidRequest: names the field, the limit and what was sent.
        UnsupportedByModel: the model has no attention.
    """
    by_word = _BY_WORD.get(options.granularity)
    if by_word is None:
        raise InvalidRequest("attention.granularity", f"unknown AttentionGranularity {options.granularity}")
    encoding = _ENCODINGS.get(options.encoding)
    if encoding is None:
        raise InvalidRequest("attention.encoding", f"unknown AttentionEncoding {options.encoding}")
    if options.reduction not in attention_pb2.AttentionReduction.values():
        raise InvalidRequest("attention.reduction", f"unknown AttentionReduction {options.reduction}")
    if options.HasField("top_k") and options.top_k < 1:
        raise InvalidRequest("attention.top_k", f"must be at least 1, got {options.top_k}")
    if not bundle.ports.layers:
        raise UnsupportedByModel("NO_ATTENTION", f"model {bundle.key.name} has no attention to return")
    aligned = options.reduction in (
        attention_pb2.ATTENTION_REDUCTION_UNSPECIFIED,
        attention_pb2.ATTENTION_REDUCTION_ALIGNMENT,
    )
    for field, selected, count in (
        ("layers", options.layers, bundle.ports.layers),
        ("heads", options.heads, bundle.ports.heads),
    ):
        if aligned and selected:
            raise InvalidRequest(
                f"attention.{field}",
                "cannot be combined with the reduction ALIGNMENT, whose heads are fixed by the model",
            )
        if len(selected) > count:
            raise InvalidRequest(f"attention.{field}", f"has {len(selected)} {field}; the model has {count}")
        for index, value in enumerate(selected):
            check_within(f"attention.{field}[{index}]", value, 0, count - 1)
        if len(set(selected)) < len(selected):
            raise InvalidRequest(f"attention.{field}", "contains a duplicate")
    return AttentionOptions(
        by_word=by_word,
        keep_heads=options.reduction == attention_pb2.ATTENTION_REDUCTION_NONE,
        layers=None if aligned else tuple(options.layers or range(bundle.ports.layers)),
        heads=None if aligned else tuple(options.heads or range(bundle.ports.heads)),
        encoding=encoding,
        top_k=options.top_k if options.HasField("top_k") else None,
    )

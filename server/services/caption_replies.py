"""Writes the answer to one picture: captions and attention maps to protobuf."""

from __future__ import annotations

from regard.contract.image_input import ImageInput
from regard.server.pictures.pixels import Picture
from regard.server.request import DecodeResult, Hypothesis, Weights
from regard.server.services.alignment import Encoding, merge_targets
from regard.server.services.attention_options import AttentionOptions
from regard.server.services.hypothesis_messages import (
    all_finite,
    fill_hypothesis,
    fill_timing,
    fill_values,
    fill_weights,
    selected_weights,
)
from regard.server.text.tokenization import RenderedTarget, TextPipeline
from regard.v1 import attention_pb2, captioning_pb2


def write_caption(
    picture: Picture,
    result: DecodeResult,
    *,
    pipeline: TextPipeline,
    image: ImageInput,
    attention: AttentionOptions | None,
    encoder_attention: Encoding | None,
) -> captioning_pb2.CaptionResult:
    """Write the answer to one picture.

    Args:
        picture: as it was read.
        result: what the model made of it.
        pipeline: renders ids as text.
        image: gives the rows and columns of the maps.
        attention: which attention to send, or None.
        encoder_attention: encoding of the encoder's self-attention, which the result then has; None to send none.

    Raises:
        ValueError: a number in the result is not finite, or the attention asked for was not kept.
    """
    reply = captioning_pb2.CaptionResult()
    for hypothesis in result.hypotheses:
        target = pipeline.render(hypothesis.tokens)
        filled = reply.hypotheses.add()
        fill_hypothesis(filled, hypothesis, target)
        if attention is not None:
            _fill_maps(filled.attention, hypothesis, target, image, attention)
    if encoder_attention is not None:
        _fill_encoder_attention(reply.encoder_attention, result.encoder_attention, image, encoder_attention)
    reply.text = reply.hypotheses[0].text
    reply.image.format = picture.format
    reply.image.width, reply.image.height = picture.width, picture.height
    reply.image.orientation = picture.orientation
    reply.image.rows, reply.image.columns = image.rows, image.columns
    fill_timing(reply.timing, result.timing)
    return reply


def _fill_encoder_attention(
    reply: attention_pb2.Attention, weights: Weights | None, image: ImageInput, encoding: Encoding
) -> None:
    if weights is None:
        raise ValueError("self-attention of the encoder was asked for but not kept")
    layers, heads = weights.shape[:2]
    reply.axes.extend(("layer", "head", "query_row", "query_column", "row", "column"))
    reply.shape.extend((layers, heads, *(image.rows, image.columns) * 2))
    reply.layers.extend(range(layers))
    reply.heads.extend(range(heads))
    fill_values(reply, all_finite(weights), encoding)


def _fill_maps(
    reply: attention_pb2.Attention,
    hypothesis: Hypothesis,
    target: RenderedTarget,
    image: ImageInput,
    options: AttentionOptions,
) -> None:
    weights = selected_weights(hypothesis, options)
    if options.by_word:
        weights = merge_targets(weights, target.words)
    fill_weights(reply, weights, options, axes=("row", "column"), shape=(image.rows, image.columns), largest="k")

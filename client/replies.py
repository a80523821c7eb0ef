"""Turns reply messages into the dataclasses of `regard.client.results` and `regard.client.captions`.

Does not know how a reply was got; refuses one that contradicts itself instead of guessing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from google.protobuf.json_format import MessageToDict

from regard.client.captions import Caption, Image
from regard.client.errors import UnreadableReply
from regard.client.hypotheses import (
    cut,
    read_hypothesis,
    read_item_error,
    read_reference,
    read_span,
    read_timing,
    read_tokens,
    read_words,
)
from regard.client.results import Granularity, Model, ModelDetails, ModelReference, Score, Segment, Task, Translation
from regard.client.weights import granularity_of, read_encoder_attention
from regard.v1 import bundle_pb2, captioning_pb2, model_pb2, translation_pb2

_TASKS: dict[int, Task] = {bundle_pb2.TASK_TRANSLATION: "translation", bundle_pb2.TASK_CAPTIONING: "captioning"}


def translations(
    request: translation_pb2.TranslateRequest, reply: translation_pb2.TranslateResponse
) -> tuple[Translation, ...]:
    """Return one translation for each text of the request, in order.

    Raises:
        UnreadableReply: the reply does not belong to the request, or contradicts itself.
    """
    expect_results(len(reply.results), len(request.texts))
    model = read_reference(reply.model)
    granularity = granularity_of(request.attention)
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
    return _translation(reply.results[0], text, read_reference(reply.model), granularity)


def scores(
    request: translation_pb2.ScoreTranslationRequest, reply: translation_pb2.ScoreTranslationResponse
) -> tuple[Score, ...]:
    """Return one score for each pair of the request, in order.

    Raises:
        UnreadableReply: the reply does not belong to the request, or contradicts itself.
    """
    expect_results(len(reply.results), len(request.pairs))
    model = read_reference(reply.model)
    granularity = granularity_of(request.attention)
    return tuple(
        Score(
            segment=_segment(result.segment, pair.source.encode(), granularity) if result.HasField("segment") else None,
            error=read_item_error(result.error) if result.HasField("error") else None,
            model=model,
        )
        for pair, result in zip(request.pairs, reply.results, strict=True)
    )


def captions(replies: Sequence[captioning_pb2.CaptionResponse], granularity: Granularity) -> tuple[Caption, ...]:
    """Return the captions of replies that hold one each; `granularity` is that of their attention.

    The field of an error names the place of the picture among all of them.

    Raises:
        UnreadableReply: a reply does not hold one caption, or contradicts itself.
    """
    return tuple(_at(place, caption(reply, granularity)) for place, reply in enumerate(replies))


def caption(reply: captioning_pb2.CaptionResponse, granularity: Granularity) -> Caption:
    """Return the caption of a picture from a reply that holds it alone; `granularity` is that of its attention.

    Raises:
        UnreadableReply: the reply does not hold one caption, or contradicts itself.
    """
    expect_results(len(reply.results), 1)
    (result,) = reply.results
    cells = {"row": result.image.rows, "column": result.image.columns}
    attention = None
    if result.HasField("encoder_attention"):
        attention = read_encoder_attention(
            result.encoder_attention, rows=result.image.rows, columns=result.image.columns
        )
    return Caption(
        text=result.text,
        hypotheses=tuple(read_hypothesis(each, granularity, source_axes=cells) for each in result.hypotheses),
        image=_image(result.image) if result.HasField("image") else None,
        timing=read_timing(result.timing) if result.HasField("timing") else None,
        error=read_item_error(result.error) if result.HasField("error") else None,
        model=read_reference(reply.model),
        encoder_attention=attention,
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
        raise UnreadableReply(f"the server sent {got} results where {wanted} were asked for")


def _at(place: int, caption: Caption) -> Caption:
    if caption.error is None or not caption.error.field.startswith("images["):
        return caption
    return replace(caption, error=replace(caption.error, field=f"images[{place}]"))


def _translation(
    result: translation_pb2.TranslationResult, text: str, model: ModelReference, granularity: Granularity
) -> Translation:
    return Translation(
        text=result.text,
        segments=tuple(_segment(segment, text.encode(), granularity) for segment in result.segments),
        error=read_item_error(result.error) if result.HasField("error") else None,
        model=model,
    )


def _model(message: model_pb2.Model) -> Model:
    return Model(
        name=message.name,
        version=message.version,
        digest=message.digest,
        task=_TASKS.get(message.task, ""),
        source_languages=tuple(message.source_languages),
        target_languages=tuple(message.target_languages),
        profile=message.profile,
        is_default=message.is_default,
        description=message.description,
    )


def _segment(message: translation_pb2.Segment, source: bytes, granularity: Granularity) -> Segment:
    words = read_words(message.source_words, source)
    tokens = read_tokens(message.source_tokens, source)
    axes = {"source": len(words) if granularity == "word" else len(tokens)}
    return Segment(
        text=cut(source, message.source_span),
        source_span=read_span(message.source_span),
        source_tokens=tokens,
        source_words=words,
        hypotheses=tuple(
            read_hypothesis(each, granularity, source_axes=axes, source=source, source_words=len(words))
            for each in message.hypotheses
        ),
        timing=read_timing(message.timing),
    )


def _image(message: captioning_pb2.Image) -> Image:
    return Image(
        format=message.format,
        width=message.width,
        height=message.height,
        orientation=message.orientation,
        rows=message.rows,
        columns=message.columns,
    )

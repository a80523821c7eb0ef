"""Answers TranslationService: finds the model, tokenises the texts, has them decoded, writes the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from regard.contract.names import ModelKey
from regard.contract.tasks import Task
from regard.server.bundle.registry import Registry
from regard.server.errors import CallerError, InvalidRequest, RegardError
from regard.server.metrics import Metrics
from regard.server.offload import Offload
from regard.server.request import DecodeRequest, SearchOptions
from regard.server.services.attention_options import AttentionOptions
from regard.server.services.call import Call, PendingReply
from regard.server.services.call_parts import (
    Decode,
    Item,
    Prepared,
    decode_items,
    find_model,
    is_small,
    raise_call_errors,
)
from regard.server.services.hypothesis_messages import write_item_error, write_model
from regard.server.services.request_messages import check_text, read_score_request, read_translate_request
from regard.server.services.status import status_number
from regard.server.services.translation_replies import write_score, write_translation
from regard.server.settings import Limits
from regard.server.text.tokenization import EncodedTarget, SourceSegment, TextPipeline
from regard.v1 import translation_pb2

# Splitting and tokenising this many characters takes about as long as handing them to a thread.
_SMALL_TEXT = 2048
# What a prepared token takes in memory, its spans and its share of words included.
_BYTES_PER_TOKEN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationService:
    """Serves all translators of a server. Use it in the event loop only.

    Attributes:
        registry: finds the model of a request.
        pipelines: text to ids and back, for every model.
        decode: decodes the segments of a call; see `regard.server.services.submission`.
        offload: runs work that would block the event loop.
        metrics: records the times of segments.
        limits: of one call.
    """

    registry: Registry
    pipelines: Mapping[ModelKey, TextPipeline]
    decode: Decode
    offload: Offload
    metrics: Metrics
    limits: Limits

    async def translate(self, request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        """Answer Translate.

        Raises:
            RegardError: the call as a whole failed, or its only text did.
        """
        bundle = find_model(self.registry, request.model, request.version, Task.TRANSLATION, call)
        pipeline = self.pipelines[bundle.key]
        options = read_translate_request(request, bundle=bundle, limits=self.limits)
        context = replace(call.context, priority=options.priority)

        def prepare(index: int) -> Prepared[tuple[SourceSegment, ...]]:
            field = f"texts[{index}]"
            check_text(options.texts[index], field=field, limits=self.limits)
            most = self.limits.max_segments_per_call
            segments = pipeline.prepare(options.texts[index], field=field, max_segments=most, end_id=options.end_id)
            requests = [
                DecodeRequest(
                    source=segment.ids,
                    search=options.decoding.for_segment(len(segment.ids), bundle),
                    keep_attention=options.attention is not None and options.attention.needs_every_head,
                    context=context,
                )
                for segment in segments
                if segment.known  # The others hold nothing that the vocabulary knows.
            ]
            return Prepared(item=segments, sources=len(segments), source_tokens=_count(segments), requests=requests)

        prepared = await self._prepare(prepare, call, field="texts", sizes=list(map(len, options.texts)))
        answers = await decode_items(self.decode, self.metrics, bundle.key, prepared, call)

        def write() -> translation_pb2.TranslateResponse:
            response = translation_pb2.TranslateResponse(model=write_model(bundle))
            for index, answer in enumerate(answers):
                if isinstance(answer, RegardError):
                    error = write_item_error(answer, code=status_number(answer), field=f"texts[{index}]")
                    response.results.append(translation_pb2.TranslationResult(error=error))
                    continue
                segments, results = answer
                response.results.append(
                    write_translation(
                        options.texts[index],
                        segments,
                        results,
                        pipeline=pipeline,
                        bundle=bundle,
                        attention=options.attention,
                    )
                )
            return response

        return PendingReply(
            write=write,
            small=is_small(call, len(answers), cells=_cells(call, options.attention)),
        )

    async def score(self, request: translation_pb2.ScoreTranslationRequest, call: Call) -> PendingReply:
        """Answer ScoreTranslation.

        Raises:
            RegardError: the call as a whole failed, or its only pair did.
        """
        bundle = find_model(self.registry, request.model, request.version, Task.TRANSLATION, call)
        pipeline = self.pipelines[bundle.key]
        options = read_score_request(request, bundle=bundle, limits=self.limits)
        context = replace(call.context, priority=options.priority)

        def prepare(index: int) -> Prepared[tuple[SourceSegment, EncodedTarget]]:
            field = f"pairs[{index}]"
            for side, text in zip(("source", "target"), options.pairs[index], strict=True):
                check_text(text, field=f"{field}.{side}", limits=self.limits)
            source = options.pairs[index][0]
            segments = pipeline.prepare(source, split=False, field=f"{field}.source", end_id=options.end_id)
            if not segments:
                raise InvalidRequest(f"{field}.source", "is blank, so there is nothing to score a target against")
            target = pipeline.encode_target(options.pairs[index][1], field=f"{field}.target")
            request = DecodeRequest(
                source=segments[0].ids,
                search=SearchOptions(
                    beam_size=1,
                    n_best=1,
                    length_penalty=options.length_penalty,
                    min_length=0,
                    max_length=len(target.ids),
                ),
                forced_target=target.ids,
                keep_attention=options.attention is not None and options.attention.needs_every_head,
                context=context,
            )
            return Prepared(
                item=(segments[0], target),
                sources=len(segments),
                source_tokens=_count(segments),
                target_tokens=len(target.ids),
                requests=[request],
            )

        sizes = [len(source) + len(target) for source, target in options.pairs]
        prepared = await self._prepare(prepare, call, field="pairs", sizes=sizes)
        answers = await decode_items(self.decode, self.metrics, bundle.key, prepared, call)

        def write() -> translation_pb2.ScoreTranslationResponse:
            response = translation_pb2.ScoreTranslationResponse(model=write_model(bundle))
            for index, answer in enumerate(answers):
                if isinstance(answer, RegardError):
                    error = write_item_error(answer, code=status_number(answer), field=f"pairs[{index}]")
                    response.results.append(translation_pb2.ScoreResult(error=error))
                    continue
                (source, target), (result,) = answer
                response.results.append(write_score(source, target, result, attention=options.attention))
            return response

        return PendingReply(
            write=write,
            small=is_small(call, len(answers), cells=_cells(call, options.attention)),
        )

    async def _prepare(
        self, prepare: Callable[[int], Prepared[Item]], call: Call, *, field: str, sizes: Sequence[int]
    ) -> list[Prepared[Item] | RegardError]:
        """Prepare one item for each size, in characters; an item that is refused becomes its error.

        Items go to the threads one by one, so that a call with many does not keep others waiting.
        """
        small = sum(sizes) <= _SMALL_TEXT
        segments = 0
        items: list[Prepared[Item] | RegardError] = []
        for index in range(len(sizes)):
            try:
                item = await self.offload.run(lambda index=index: prepare(index), small=small)
            except CallerError as error:
                items.append(error)
                continue
            items.append(item)
            segments += item.sources
            if segments > self.limits.max_segments_per_call:
                limit = self.limits.max_segments_per_call
                raise InvalidRequest(field, f"at most {limit} sentences in one call; {field}[{index}] exceeds that")
            call.reservation.add(_BYTES_PER_TOKEN * (item.source_tokens + item.target_tokens))
        return raise_call_errors(items)


def _cells(call: Call, attention: AttentionOptions | None) -> int:
    return call.source_tokens * call.target_tokens if attention is not None else 0


def _count(segments: Sequence[SourceSegment]) -> int:
    return sum(len(segment.ids) for segment in segments)

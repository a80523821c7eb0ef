"""Answers CaptioningService: finds the model, reads the pictures, has them decoded, writes the reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from regard.contract.bundle import LoadedBundle
from regard.contract.names import ModelKey
from regard.contract.tasks import Task
from regard.server.bundle.registry import Registry
from regard.server.errors import CallerError, RegardError
from regard.server.metrics import Metrics
from regard.server.pictures.picture_reader import PictureReader
from regard.server.pictures.pixels import Picture
from regard.server.request import CallContext, DecodeRequest
from regard.server.services.call import Call, PendingReply
from regard.server.services.call_parts import Decode, Prepared, decode_items, find_model, is_small, raise_call_errors
from regard.server.services.caption_replies import write_caption
from regard.server.services.hypothesis_messages import write_item_error, write_model
from regard.server.services.request_messages import CaptionOptions, read_caption_request
from regard.server.services.status import status_number
from regard.server.settings import Limits
from regard.server.text.tokenization import TextPipeline
from regard.v1 import captioning_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionService:
    """Serves all captioners of a server. Use it in the event loop only.

    Attributes:
        registry: finds the model of a request.
        pipelines: render ids as text, for every model.
        decode: decodes the pictures of a call; see `regard.server.services.submission`.
        pictures: reads picture files.
        metrics: records the times of pictures.
        limits: of one call.
    """

    registry: Registry
    pipelines: Mapping[ModelKey, TextPipeline]
    decode: Decode
    pictures: PictureReader
    metrics: Metrics
    limits: Limits

    async def caption(self, request: captioning_pb2.CaptionRequest, call: Call) -> PendingReply:
        """Answer Caption.

        Raises:
            RegardError: the call as a whole failed, or its only picture did.
        """
        bundle = find_model(self.registry, request.model, request.version, Task.CAPTIONING, call)
        image = bundle.image
        assert image is not None  # `regard.contract.bundle` saw to it
        options = read_caption_request(request, bundle=bundle, limits=self.limits)
        # The message is a second copy: gRPC holds the request bytes until the end of the call.
        copied = request.ByteSize()
        call.reservation.add(copied)
        prepared = await self._prepare(request, bundle, options, replace(call.context, priority=options.priority), call)
        # It is not needed any more, and the call may wait in the queue for long.
        del request
        call.reservation.release(copied)
        answers = await decode_items(self.decode, self.metrics, bundle.key, prepared, call)
        pipeline = self.pipelines[bundle.key]

        def write() -> captioning_pb2.CaptionResponse:
            response = captioning_pb2.CaptionResponse(model=write_model(bundle))
            for index, answer in enumerate(answers):
                if isinstance(answer, RegardError):
                    error = write_item_error(answer, code=status_number(answer), field=f"images[{index}]")
                    response.results.append(captioning_pb2.CaptionResult(error=error))
                    continue
                picture, (result,) = answer
                response.results.append(
                    write_caption(
                        picture,
                        result,
                        pipeline=pipeline,
                        image=image,
                        attention=options.attention,
                        encoder_attention=options.encoder_attention,
                    )
                )
            return response

        cells = image.cells * call.target_tokens if options.attention is not None else 0
        if options.encoder_attention is not None:
            cells += image.cells**2 * len(answers)
        return PendingReply(write=write, small=is_small(call, len(answers), cells=cells))

    async def _prepare(
        self,
        request: captioning_pb2.CaptionRequest,
        bundle: LoadedBundle,
        options: CaptionOptions,
        context: CallContext,
        call: Call,
    ) -> list[Prepared[Picture] | RegardError]:
        """Read the pictures one by one, so that a call with many does not keep others waiting.

        A picture that is refused becomes its error.
        """
        image = bundle.image
        assert image is not None
        search = options.decoding.for_picture(bundle)
        keep_attention = options.attention is not None and options.attention.needs_every_head
        items: list[Prepared[Picture] | RegardError] = []
        for index in range(len(request.images)):
            try:
                picture = await self.pictures.read(
                    lambda index=index: request.images[index], image, field=f"images[{index}]"
                )
            except CallerError as error:
                items.append(error)
                continue
            call.reservation.add(picture.pixels.nbytes)
            asked = DecodeRequest(
                source=picture.pixels,
                search=search,
                keep_attention=keep_attention,
                keep_encoder_attention=options.encoder_attention is not None,
                context=context,
            )
            items.append(Prepared(item=picture, requests=[asked], sources=1))
        return raise_call_errors(items)

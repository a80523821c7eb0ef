"""The client for asyncio.

The same as `regard.client.synchronous` with `await` before every call; knows nothing more.
"""

# ruff: noqa: ASYNC109  # a timeout travels to the server as the deadline of the call, which asyncio.timeout cannot do
from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc
from grpc import aio

from regard.client import health, replies
from regard.client.batching.batches import Done, advance, calls_for
from regard.client.batching.image_files import ImageSource, image_sources
from regard.client.captions import Caption
from regard.client.channel import DEFAULT_ADDRESS, check_address, open_async_channel
from regard.client.errors import NotServing, RegardCallError, WrongServer
from regard.client.requests import (
    DEFAULT_TIMEOUT,
    CaptionOptions,
    ScoreOptions,
    TranslateOptions,
    granularity_asked_for,
    score_request,
    translate_request,
)
from regard.client.results import Model, ModelDetails, Score, Translation
from regard.client.status import call_error
from regard.v1 import (
    captioning_pb2,
    captioning_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    translation_pb2,
    translation_pb2_grpc,
)

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class AsyncClient:
    """A connection to a server for one event loop; to be made inside it, and an async context manager that closes it.

    Arguments, answers and errors are those of `client.Client`. Cancelling the task that awaits a call cancels the call
    on the server.
    """

    def __init__(self, address: str = DEFAULT_ADDRESS) -> None:
        self.address = check_address(address)
        self._channel = open_async_channel(address)
        self._translation = translation_pb2_grpc.TranslationServiceStub(self._channel)
        self._captioning = captioning_pb2_grpc.CaptioningServiceStub(self._channel)
        self._models = model_pb2_grpc.ModelServiceStub(self._channel)
        self._health = self._channel.unary_unary(health.CHECK_METHOD, health.as_is, health.as_is)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls in flight are cancelled."""
        await self._channel.close()

    async def translate(
        self, texts: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT, **options: Unpack[TranslateOptions]
    ) -> tuple[Translation, ...]:
        """Translate texts of one or several sentences; see `client.Client.translate`."""
        request = translate_request(texts, **options)
        return replies.translations(request, await self.send_translate(request, timeout=timeout))

    async def send_translate(
        self, request: translation_pb2.TranslateRequest, *, timeout: float = DEFAULT_TIMEOUT
    ) -> translation_pb2.TranslateResponse:
        """Send a message made by `translate_request` and return the reply as it came."""
        return await self._call(self._translation.Translate, request, timeout)

    async def caption(
        self, images: Iterable[ImageSource], *, timeout: float = DEFAULT_TIMEOUT, **options: Unpack[CaptionOptions]
    ) -> tuple[Caption, ...]:
        """Describe pictures; see `client.Client.caption`. Files are read in a thread."""
        deadline = time.monotonic() + timeout
        calls = calls_for(image_sources(images), **options)
        now = await asyncio.to_thread(advance, calls, None)
        while not isinstance(now, Done):
            remaining = deadline - time.monotonic()
            try:
                answer = await self._call(self._captioning.Caption, now, remaining, told=timeout)
            except RegardCallError as error:
                answer = error
            now = await asyncio.to_thread(advance, calls, answer)
        return replies.captions(now.replies, granularity_asked_for(options))

    async def send_caption(
        self, request: captioning_pb2.CaptionRequest, *, timeout: float = DEFAULT_TIMEOUT
    ) -> captioning_pb2.CaptionResponse:
        """Send a message made by `caption_request` and return the reply as it came."""
        return await self._call(self._captioning.Caption, request, timeout)

    async def score(
        self, pairs: Iterable[tuple[str, str]], *, timeout: float = DEFAULT_TIMEOUT, **options: Unpack[ScoreOptions]
    ) -> tuple[Score, ...]:
        """Score given (source, target) pairs; see `client.Client.score`."""
        request = score_request(pairs, **options)
        return replies.scores(request, await self._call(self._translation.ScoreTranslation, request, timeout))

    async def models(self, *, timeout: float = DEFAULT_TIMEOUT) -> tuple[Model, ...]:
        """Return every version of every model that the server holds, by name, newest first."""
        return replies.models(await self._call(self._models.ListModels, model_pb2.ListModelsRequest(), timeout))

    async def model(self, name: str = "", version: str = "", *, timeout: float = DEFAULT_TIMEOUT) -> ModelDetails:
        """Return one model with its manifest; by default the one that answers requests which name none."""
        request = model_pb2.GetModelRequest(name=name, version=version)
        return replies.model_details(await self._call(self._models.GetModel, request, timeout))

    async def wait_ready(self, timeout: float = 30.0) -> None:
        """Return as soon as the server says that it serves; see `client.Client.wait_ready`."""
        deadline = time.monotonic() + timeout
        while True:
            remaining = deadline - time.monotonic()
            try:
                if health.is_serving(await self._call(self._health, health.WHOLE_SERVER, max(remaining, 0.01))):
                    return
                failure = NotServing(f"the server at {self.address} is not ready")
            except WrongServer:
                raise  # it will not learn to answer
            except RegardCallError as error:
                failure = error
            if time.monotonic() + health.POLL_SECONDS > deadline:
                raise failure
            await asyncio.sleep(health.POLL_SECONDS)

    async def _call(
        self,
        method: aio.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        timeout: float,
        *,
        told: float | None = None,
    ) -> _Response:
        """Call; an error tells `told` seconds where `timeout` is what is left of them."""
        try:
            return await method(request, timeout=timeout)
        except grpc.RpcError as error:
            raise call_error(error, self.address, timeout if told is None else told) from None

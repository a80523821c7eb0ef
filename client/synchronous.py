"""The client for threads.

Knows neither how requests are made nor how replies are read; `regard.client.requests` and `regard.client.replies` do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc

from regard.client import health, replies
from regard.client.batching.batches import calls_for, run
from regard.client.batching.image_files import ImageSource, image_sources
from regard.client.captions import Caption
from regard.client.channel import DEFAULT_ADDRESS, open_channel
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


class Client:
    """A connection to a server; safe to share between threads, and a context manager that closes it.

    Busy and starting servers are tried again up to four times. Every method raises `RegardCallError` or one of its
    subclasses, with a sentence for people as its text.

    Args:
        address: HOST:PORT, or another target that gRPC knows.

    Raises:
        ValueError: the address is not one.
    """

    def __init__(self, address: str = DEFAULT_ADDRESS) -> None:
        self.address = address
        self._channel = open_channel(address)
        self._translation = translation_pb2_grpc.TranslationServiceStub(self._channel)
        self._captioning = captioning_pb2_grpc.CaptioningServiceStub(self._channel)
        self._models = model_pb2_grpc.ModelServiceStub(self._channel)
        self._health = self._channel.unary_unary(health.CHECK_METHOD, health.as_is, health.as_is)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calls in flight end with `CallCancelled`."""
        self._channel.close()

    def translate(
        self, texts: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT, **options: Unpack[TranslateOptions]
    ) -> tuple[Translation, ...]:
        """Translate texts of one or several sentences; return one translation for each, in order.

        Args:
            texts: a blank one is answered by a blank one.
            timeout: seconds that the call may take, retries included.
            options: `model`, `version`, `target_language`, `beam_size`, `n_best`, `length_penalty`, `min_length`,
                `max_length`, `no_repeat_ngram`, `attention`, `priority`: see `TranslateOptions`.

        Raises:
            RegardCallError: the call failed. If one text of many fails, it does so alone: see `Translation.error`.
            ValueError: a text holds a lone surrogate.
        """
        request = translate_request(texts, **options)
        return replies.translations(request, self.send_translate(request, timeout=timeout))

    def send_translate(
        self, request: translation_pb2.TranslateRequest, *, timeout: float = DEFAULT_TIMEOUT
    ) -> translation_pb2.TranslateResponse:
        """Send a message made by `translate_request` and return the reply as it came."""
        return self._call(self._translation.Translate, request, timeout)

    def caption(
        self, images: Iterable[ImageSource], *, timeout: float = DEFAULT_TIMEOUT, **options: Unpack[CaptionOptions]
    ) -> tuple[Caption, ...]:
        """Describe pictures; return one caption for each, in order.

        What is too much for one call goes in several, one after the other.

        Args:
            images: the bytes of files, or their paths: JPEG, PNG, WebP, GIF (first frame), BMP or TIFF.
            timeout: seconds that all of it may take, retries included.
            options: `model`, `version`, `beam_size`, `n_best`, `length_penalty`, `min_length`, `max_length`,
                `no_repeat_ngram`, `attention`, `priority`, `encoder_attention`: see `CaptionOptions`.
                `attention="word"` gives `Caption.maps`.

        Raises:
            RegardCallError: the call failed. If one picture of many fails, it does so alone: see `Caption.error`.
            OSError: a file cannot be read.
        """
        deadline = time.monotonic() + timeout

        def send(request: captioning_pb2.CaptionRequest) -> captioning_pb2.CaptionResponse:
            return self._call(self._captioning.Caption, request, deadline - time.monotonic(), told=timeout)

        replies_ = run(calls_for(image_sources(images), **options), send)
        return replies.captions(replies_, granularity_asked_for(options))

    def send_caption(
        self, request: captioning_pb2.CaptionRequest, *, timeout: float = DEFAULT_TIMEOUT
    ) -> captioning_pb2.CaptionResponse:
        """Send a message made by `caption_request` and return the reply as it came."""
        return self._call(self._captioning.Caption, request, timeout)

    def score(
        self, pairs: Iterable[tuple[str, str]], *, timeout: float = DEFAULT_TIMEOUT, **options: Unpack[ScoreOptions]
    ) -> tuple[Score, ...]:
        """Score given (source, target) pairs; return log-probabilities and alignments of each, in order.

        Raises:
            RegardCallError: the call failed. If one pair of many fails, it does so alone: see `Score.error`.
            ValueError: a text holds a lone surrogate.
        """
        request = score_request(pairs, **options)
        return replies.scores(request, self._call(self._translation.ScoreTranslation, request, timeout))

    def models(self, *, timeout: float = DEFAULT_TIMEOUT) -> tuple[Model, ...]:
        """Return every version of every model that the server holds, by name, newest first."""
        return replies.models(self.send_list_models(timeout=timeout))

    def send_list_models(self, *, timeout: float = DEFAULT_TIMEOUT) -> model_pb2.ListModelsResponse:
        """Ask for the models and return the reply as it came, limits of the server included."""
        return self._call(self._models.ListModels, model_pb2.ListModelsRequest(), timeout)

    def model(self, name: str = "", version: str = "", *, timeout: float = DEFAULT_TIMEOUT) -> ModelDetails:
        """Return one model with its manifest; by default the one that answers requests which name none."""
        request = model_pb2.GetModelRequest(name=name, version=version)
        return replies.model_details(self._call(self._models.GetModel, request, timeout))

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Return as soon as the server says that it serves.

        Raises:
            RegardCallError: it did not within `timeout` seconds; the last reason is the text.
        """
        deadline = time.monotonic() + timeout
        while True:
            remaining = deadline - time.monotonic()
            try:
                if health.is_serving(self._call(self._health, health.WHOLE_SERVER, max(remaining, 0.01))):
                    return
                failure = NotServing(f"the server at {self.address} is not ready")
            except WrongServer:
                raise  # it will not learn to answer
            except RegardCallError as error:
                failure = error
            if time.monotonic() + health.POLL_SECONDS > deadline:
                raise failure
            time.sleep(health.POLL_SECONDS)

    def _call(
        self,
        method: grpc.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        timeout: float,
        *,
        told: float | None = None,
    ) -> _Response:
        """Call; an error tells `told` seconds where `timeout` is what is left of them."""
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            raise call_error(error, self.address, timeout if told is None else told) from None

"""A real server in this process, on a free port, over a model without weights.

It knows no test; every test says what the model does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import status_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from grpc_health.v1 import health_pb2
from tests.bundles import NULL_MODELS
from tests.server.engine_fakes import Cache, FakeDecoder, Prefix, Score, hashed_attention, hashed_scores

from regard.contract.bundle import LoadedBundle
from regard.server.front.application import Application, running_server
from regard.server.settings import ServerSettings
from regard.v1 import model_pb2_grpc, translation_pb2, translation_pb2_grpc

Detail = TypeVar("Detail", bound=Message)

VOCABULARY = 64
# Ends what hangs, seconds; no test passes or fails by it, however slow or busy the machine is.
PATIENCE = 120.0
SETTINGS = ServerSettings(
    models=(NULL_MODELS,), address="127.0.0.1:0", metrics_address="off", workers=2, rows=32, grace=5.0
)
SCORE = hashed_scores(vocabulary=VOCABULARY, ending=0.4)
ATTENTION = hashed_attention(layers=1, heads=1)


@dataclass(eq=False)
class ServedDecoder(FakeDecoder):
    """A fake that says what runs it, as wide as the null bundle, whose texts are words `echo`, `echo1` to `echo59`."""

    provider: str = "FakeExecutionProvider"


def nothing(sources: list[Prefix]) -> None:
    """Done before a step or an encoding unless a test wants more."""


def fake_model(
    *,
    score: Score = SCORE,
    cache: Cache = "none",
    before_step: Callable[[list[Prefix]], None] = nothing,
    before_encode: Callable[[list[Prefix]], None] = nothing,
) -> ServedDecoder:
    """A model whose answer is a function of source and prefix."""
    return ServedDecoder(
        score=score,
        attend=ATTENTION,
        cache=cache,
        max_source_tokens=256,
        max_target_tokens=64,
        before_step=before_step,
        before_encode=before_encode,
    )


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running server and a connection to it."""

    application: Application
    channel: grpc.aio.Channel
    translation: translation_pb2_grpc.TranslationServiceAsyncStub
    models: model_pb2_grpc.ModelServiceAsyncStub

    async def health(self, service: str = "") -> int:
        """What Check says."""
        check = self.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        return (await check(health_pb2.HealthCheckRequest(service=service))).status

    async def translate(self, *texts: str, **fields: Any) -> translation_pb2.TranslateResponse:
        """Call Translate."""
        return await self.translation.Translate(
            translation_pb2.TranslateRequest(texts=texts, **fields), timeout=PATIENCE
        )


def connect(application: Application) -> Served:
    """A connection that takes messages of any size."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{application.port}", options=options)
    return Served(
        application=application,
        channel=channel,
        translation=translation_pb2_grpc.TranslationServiceStub(channel),
        models=model_pb2_grpc.ModelServiceStub(channel),
    )


@asynccontextmanager
async def serving(model: ServedDecoder | None = None, **changes: Any) -> AsyncGenerator[Served]:
    """A server over a fake model, or over the null bundle's own graphs, that is SERVING."""

    def open_bundle(bundle: LoadedBundle) -> ServedDecoder:
        assert model is not None
        return model

    settings = replace(SETTINGS, **changes)
    async with running_server(settings, open_bundle=None if model is None else open_bundle) as application:
        served = connect(application)
        try:
            yield served
        finally:
            if model is not None and isinstance(model.before_step, Barrier):
                model.before_step.lift()
            await served.channel.close()


def detail_of(error: grpc.aio.AioRpcError, kind: type[Detail]) -> Detail:
    """The one detail of a status, which must be of this kind."""
    raw = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    (packed,) = status_pb2.Status.FromString(raw).details
    detail = kind()
    assert packed.Unpack(detail)
    return detail


async def eventually(true: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Wait until a function returns something true."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what is waited for happens in other threads
            await asyncio.sleep(0.005)


class Barrier:
    """Holds up the steps of a model from when it is armed until it is lifted; knows when a step waits."""

    def __init__(self) -> None:
        self.lifted = threading.Event()
        self.reached = threading.Event()
        self._armed = False

    def arm(self) -> None:
        """From now on steps wait. To be called while no step runs."""
        self.reached.clear()
        self.lifted.clear()
        self._armed = True

    def lift(self) -> None:
        """Let the step that waits and all later ones pass."""
        self._armed = False
        self.lifted.set()

    def __call__(self, sources: list[Prefix]) -> None:
        if self._armed:
            self.reached.set()
            assert self.lifted.wait(PATIENCE), "nobody lifted the barrier"

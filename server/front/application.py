"""Assembles a server from its parts, brings it up to SERVING and down again.

Signals and exit codes belong to `regard.server.front.process`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import grpc

from regard.server.byte_budget import ByteBudget
from regard.server.engine.engine import Engine
from regard.server.front.calls import Calls
from regard.server.front.gate import Gate
from regard.server.front.health import SERVICE as HEALTH
from regard.server.front.health import Health
from regard.server.front.listener import bind, create_listener
from regard.server.front.loading import Loaded, OpenBundle, load, run_graphs
from regard.server.metrics import Metrics, serve_metrics
from regard.server.offload import Offload
from regard.server.pictures.picture_reader import PictureReader
from regard.server.services.caption_service import CaptionService
from regard.server.services.model_service import ModelService
from regard.server.services.submission import decode
from regard.server.services.translation_service import TranslationService
from regard.server.settings import OFF, ServerSettings, split_address
from regard.v1 import captioning_pb2, model_pb2, translation_pb2

TRANSLATION = "regard.v1.TranslationService"
CAPTIONING = "regard.v1.CaptioningService"
MODELS = "regard.v1.ModelService"

_PULSE_SECONDS = 0.5
# How long replies of finished calls get to be sent, and anything that hangs to come back.
_FAREWELL_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that answer calls."""

    translation: TranslationService
    captioning: CaptionService
    models: ModelService


class Application:
    """One server. Call `listen`, `load`, `drain` and `close`, in this order and in one event loop.

    Args:
        settings: how to serve.
        open_bundle: makes a bundle runnable; None runs its graphs.
    """

    def __init__(self, settings: ServerSettings, *, open_bundle: OpenBundle | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.health = Health((TRANSLATION, CAPTIONING, MODELS))
        self.port = 0
        self.metrics_port = 0
        self.loaded: Loaded | None = None
        self._open_bundle = open_bundle or run_graphs(settings)
        self._gate: Gate[Services] = Gate(max_concurrent_calls=settings.max_concurrent_calls)
        self._offload = Offload()
        self._pictures = PictureReader(settings.limits, memory=settings.max_decoding_bytes)
        self._listener: grpc.aio.Server | None = None
        self._stop_metrics: Callable[[], None] | None = None
        self._pulse: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT with the port that was bound."""
        host, _ = split_address("address", self.settings.address)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def listen(self) -> None:
        """Bind the ports. From now on health checks are answered, and calls refused until everything is loaded.

        Raises:
            SettingsError: a port is not available.
        """
        listener = create_listener(
            self.settings, (*self._handlers(), self.health.handler()), (TRANSLATION, CAPTIONING, MODELS, HEALTH)
        )
        self._listener = listener
        self.port = bind(listener, self.settings.address)
        if self.settings.metrics_address != OFF:
            self.metrics_port, self._stop_metrics = serve_metrics(self.metrics, self.settings.metrics_address)
        await listener.start()

    async def load(self) -> None:
        """Load and warm up every model, then accept calls.

        Raises:
            StartupError: a bundle cannot be served, or the device is not there.
        """
        settings = self.settings
        loaded = await load(settings, self.metrics, self._open_bundle)
        self.loaded = loaded
        self.metrics.providers(loaded.providers)
        translation = TranslationService(
            registry=loaded.registry,
            pipelines=loaded.pipelines,
            decode=partial(decode, loaded.engine),
            offload=self._offload,
            metrics=self.metrics,
            limits=settings.limits,
        )
        captioning = CaptionService(
            registry=loaded.registry,
            pipelines=loaded.pipelines,
            decode=partial(decode, loaded.engine),
            pictures=self._pictures,
            metrics=self.metrics,
            limits=settings.limits,
        )
        models = ModelService(registry=loaded.registry, limits=settings.limits)
        self._gate.open(Services(translation=translation, captioning=captioning, models=models))
        self.health.set_ready(True)
        self._pulse = asyncio.create_task(self._watch(loaded.engine))

    async def drain(self, cut: asyncio.Event) -> None:
        """Turn NOT_SERVING, pause, refuse new calls, and wait for the running ones, at most for the grace period.

        Args:
            cut: set to stop waiting.
        """
        self.health.set_ready(False)
        await _first(cut.wait(), timeout=self.settings.drain_pause)
        self._gate.close("the server is draining")
        await _first(self._gate.idle(), cut.wait(), timeout=self.settings.grace)

    async def close(self) -> None:
        """End what is still running and release everything, within a second even if something hangs."""
        self.health.set_ready(False)
        self._gate.close("the server is stopping")
        if self._pulse is not None:
            self._pulse.cancel()
        stops: list[Callable[[], None]] = []
        if self.loaded is not None:
            stops.append(partial(self.loaded.engine.stop, 0.0))
        if self._stop_metrics is not None:
            stops.append(self._stop_metrics)
        if stops:
            await asyncio.wait(
                [asyncio.ensure_future(asyncio.to_thread(stop)) for stop in stops], timeout=_FAREWELL_SECONDS
            )
        if self._listener is not None:
            await self._listener.stop(_FAREWELL_SECONDS)
            # gRPC has cancelled what was left but does not wait for it.
            await _first(self._gate.idle(), timeout=_FAREWELL_SECONDS)
            await asyncio.sleep(0)
        self._offload.close()
        self._pictures.close()

    def _handlers(self) -> Sequence[grpc.GenericRpcHandler]:
        calls = Calls(
            settings=self.settings,
            gate=self._gate,
            metrics=self.metrics,
            offload=self._offload,
            budget=ByteBudget(self.settings.max_bytes_held),
        )
        translate = calls.method(
            f"{TRANSLATION}/Translate",
            translation_pb2.TranslateRequest,
            lambda services, request, call: services.translation.translate(request, call),
        )
        score = calls.method(
            f"{TRANSLATION}/ScoreTranslation",
            translation_pb2.ScoreTranslationRequest,
            lambda services, request, call: services.translation.score(request, call),
        )
        caption = calls.method(
            f"{CAPTIONING}/Caption",
            captioning_pb2.CaptionRequest,
            lambda services, request, call: services.captioning.caption(request, call),
        )
        list_models = calls.method(
            f"{MODELS}/ListModels",
            model_pb2.ListModelsRequest,
            lambda services, request, call: services.models.list_models(request, call),
        )
        get_model = calls.method(
            f"{MODELS}/GetModel",
            model_pb2.GetModelRequest,
            lambda services, request, call: services.models.get_model(request, call),
        )
        return (
            grpc.method_handlers_generic_handler(TRANSLATION, {"Translate": translate, "ScoreTranslation": score}),
            grpc.method_handlers_generic_handler(CAPTIONING, {"Caption": caption}),
            grpc.method_handlers_generic_handler(MODELS, {"ListModels": list_models, "GetModel": get_model}),
        )

    async def _watch(self, engine: Engine) -> None:
        """Report to health whether the engine is alive, and to metrics how late the event loop wakes up."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _PULSE_SECONDS
            await asyncio.sleep(_PULSE_SECONDS)
            self.metrics.loop_lag(max(0.0, loop.time() - due))
            self.health.set_alive(engine.alive())


@asynccontextmanager
async def running_server(
    settings: ServerSettings, *, open_bundle: OpenBundle | None = None
) -> AsyncGenerator[Application]:
    """Run a server in this event loop; it is SERVING inside the block and closed, without a drain, at its end.

    Raises:
        StartupError: it cannot be started.
    """
    application = Application(settings, open_bundle=open_bundle)
    try:
        await application.listen()
        await application.load()
        yield application
    finally:
        await application.close()


async def _first(*awaitables: Awaitable[object], timeout: float) -> None:  # noqa: ASYNC109 - not cancelling is the point
    """Wait for the first of these, at most `timeout` seconds, and raise its exception if it has one."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    done, others = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()

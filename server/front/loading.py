"""Loads every model of a server, starts the engine, and warms each model up before the server is ready."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from regard.contract.bundle import LoadedBundle
from regard.contract.names import ModelKey
from regard.server import logs
from regard.server.bundle.registry import Registry
from regard.server.engine.decoder import Decoder
from regard.server.engine.engine import Engine, EngineSettings
from regard.server.errors import BundleError, RegardError
from regard.server.front.processors import available_processors
from regard.server.metrics import Metrics
from regard.server.request import CallContext, DecodeRequest, Ids, Pixels, SearchOptions
from regard.server.runtime.session import CUDA, open_model, with_provider_profile
from regard.server.services.submission import decode
from regard.server.settings import EMBEDDED_DEFAULT, EMBEDDED_MODELS, ServerSettings
from regard.server.text.tokenization import TextPipeline

_WARM_UP_TEXT = "This is a first sentence."
_WARM_UP_GREY = 128
_WARM_UP_SECONDS = 30.0

_log = logging.getLogger("regard.server")


class RunnableModel(Decoder, Protocol):
    """A decoder that names its execution provider."""

    @property
    def provider(self) -> str:
        """Execution provider."""
        ...


OpenBundle = Callable[[LoadedBundle], RunnableModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What answers calls.

    Attributes:
        registry: the bundles.
        pipelines: text to ids and back, for every bundle.
        engine: started; whoever gets it stops it.
        providers: that run the graphs.
        workers: decode threads of the engine.
    """

    registry: Registry
    pipelines: Mapping[ModelKey, TextPipeline]
    engine: Engine
    providers: frozenset[str]
    workers: int


def run_graphs(settings: ServerSettings) -> OpenBundle:
    """Return what makes a bundle runnable by default: its own graphs, on the device that the settings name."""
    return lambda bundle: open_model(bundle, device=settings.device, intra_op_threads=1)


def find_models(settings: ServerSettings) -> Registry:
    """Read the bundles that the settings name.

    Raises:
        StartupError: there are none, or one cannot be served.
    """
    embedded = any(root.resolve() == EMBEDDED_MODELS for root in settings.models)
    return Registry.discover(
        settings.models,
        default=settings.default_model or None,
        profile=settings.profile or None,
        preferred=EMBEDDED_DEFAULT if embedded else None,
    )


async def load(settings: ServerSettings, metrics: Metrics, open_bundle: OpenBundle) -> Loaded:
    """Load everything that the settings name; the event loop stays free.

    Raises:
        StartupError: a bundle cannot be served, or the device is not there.
    """
    registry = await asyncio.to_thread(find_models, settings)
    for warning in registry.warnings:
        logs.write(_log, logging.WARNING, "left aside", {"reason": warning})
    models = await asyncio.to_thread(lambda: {bundle.key: open_bundle(bundle) for bundle in registry.bundles})
    registry = registry.holding(
        [with_provider_profile(bundle, models[bundle.key].provider) for bundle in registry.bundles]
    )
    pipelines = await asyncio.to_thread(lambda: {bundle.key: TextPipeline(bundle) for bundle in registry.bundles})
    providers = frozenset(model.provider for model in models.values())
    workers = settings.workers or (1 if CUDA in providers else available_processors())
    bounds = EngineSettings(
        workers=workers,
        rows=settings.rows,
        widest_beam=settings.limits.max_beam_size,
        queue_limit=settings.queue_limit,
    )
    engine = Engine(models, bounds, metrics)
    engine.start()
    try:
        for bundle in registry.bundles:
            await _warm_up(engine, bundle, pipelines[bundle.key])
    except BaseException:
        await asyncio.to_thread(engine.stop, 0.0)
        raise
    return Loaded(
        registry=registry,
        pipelines=pipelines,
        engine=engine,
        providers=providers,
        workers=workers,
    )


async def _warm_up(engine: Engine, bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    """Decode one sentence, or one grey picture, with a model.

    Raises:
        BundleError: the model cannot decode it.
    """
    source = await asyncio.to_thread(_first_source, bundle, pipeline)
    request = DecodeRequest(
        source=source,
        search=SearchOptions(beam_size=1, n_best=1, length_penalty=1.0, min_length=0, max_length=4),
        context=CallContext(request_id="warm-up", deadline=time.monotonic() + _WARM_UP_SECONDS),
    )
    key = bundle.key
    (outcome,) = await decode(engine, key, [[request]], lambda size: None)
    if isinstance(outcome, RegardError):
        what = "sentence" if bundle.image is None else "picture"
        raise BundleError(f"model {key.name}/{key.version} cannot decode its first {what}: {outcome}")
    pipeline.render(outcome[0].hypotheses[0].tokens)


def _first_source(bundle: LoadedBundle, pipeline: TextPipeline) -> Ids | Pixels:
    if bundle.image is None:
        return pipeline.prepare(_WARM_UP_TEXT)[0].ids
    return np.full((bundle.image.height, bundle.image.width, 3), _WARM_UP_GREY, dtype=np.uint8)

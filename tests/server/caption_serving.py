"""A real server in this process over a captioner without weights, with or without a translator beside it.

It knows no test.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
from tests.server.caption_fakes import FakeCaptioner
from tests.server.serving import NULL_MODELS, PATIENCE, SETTINGS, Served, ServedDecoder, connect, fake_model

from regard.contract.bundle import LoadedBundle
from regard.contract.tasks import Task
from regard.server.front.application import running_server
from regard.server.front.loading import RunnableModel
from regard.server.request import Weights
from regard.v1 import attention_pb2, captioning_pb2, captioning_pb2_grpc

Arguments = ParamSpec("Arguments")


def in_a_loop(test: Callable[Arguments, Coroutine[Any, Any, None]]) -> Callable[Arguments, None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        asyncio.run(test(*arguments, **named))

    return run


@dataclass(frozen=True, kw_only=True)
class Captioning:
    """A running server, a connection to it, and its models.

    Attributes:
        served: the server, to translate with as well.
        stub: to caption with.
        captioner: what answers.
    """

    served: Served
    stub: captioning_pb2_grpc.CaptioningServiceAsyncStub
    captioner: FakeCaptioner

    async def caption(self, *images: bytes, **fields: Any) -> captioning_pb2.CaptionResponse:
        """Call Caption."""
        return await self.stub.Caption(captioning_pb2.CaptionRequest(images=images, **fields), timeout=PATIENCE)


@asynccontextmanager
async def captioning(
    *roots: Path, captioner: FakeCaptioner | None = None, translator: ServedDecoder | None = None, **changes: Any
) -> AsyncGenerator[Captioning]:
    """A server of the bundles below some folders and of the null bundle, that is SERVING."""
    captions = captioner or FakeCaptioner()
    translations = translator or fake_model()

    def open_bundle(bundle: LoadedBundle) -> RunnableModel:
        return captions if bundle.task is Task.CAPTIONING else translations

    settings = replace(SETTINGS, models=(*roots, NULL_MODELS), **changes)
    async with running_server(settings, open_bundle=open_bundle) as application:
        served = connect(application)
        try:
            yield Captioning(
                served=served, stub=captioning_pb2_grpc.CaptioningServiceStub(served.channel), captioner=captions
            )
        finally:
            await served.channel.close()


def weights_of(attention: attention_pb2.Attention) -> Weights:
    """The weights of a reply in float32, in the shape that it states."""
    return np.frombuffer(attention.values, dtype="<f4").reshape(tuple(attention.shape))

"""A server with known delays and failures, to test the generator.

Run it by `python -m regard.loadtest.toy.server --port-file FILE`.

It does not know any model: a translation is its source, word by word, a caption the bytes of its picture if they are
text. The name of the model says how to behave: `delay-500` answers after 500 ms, `fail-UNAVAILABLE-20` fails every
fifth call so, `say-a-red-ball` captions with these words, anything else echoes at once.
"""

import argparse
import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import grpc

from regard.atomic import write_text
from regard.loadtest.toy.answers import aligned, as_text, captioned, segments
from regard.v1.bundle_pb2 import TASK_CAPTIONING, TASK_TRANSLATION
from regard.v1.captioning_pb2 import CaptionRequest, CaptionResponse
from regard.v1.captioning_pb2_grpc import CaptioningServiceServicer, add_CaptioningServiceServicer_to_server
from regard.v1.decoding_pb2 import ModelReference
from regard.v1.model_pb2 import (
    GetModelRequest,
    GetModelResponse,
    ListModelsRequest,
    ListModelsResponse,
    Model,
    ServerLimits,
)
from regard.v1.model_pb2_grpc import ModelServiceServicer, add_ModelServiceServicer_to_server
from regard.v1.translation_pb2 import (
    ScoreResult,
    ScoreTranslationRequest,
    ScoreTranslationResponse,
    TranslateRequest,
    TranslateResponse,
    TranslationResult,
)
from regard.v1.translation_pb2_grpc import TranslationServiceServicer, add_TranslationServiceServicer_to_server

HEALTH = "grpc.health.v1.Health"
# A HealthCheckResponse that says SERVING.
SERVING = b"\x08\x01"
TOY = Model(name="toy", version="1", digest="0" * 64, profile="portable", is_default=True, task=TASK_TRANSLATION)
CAPTIONER = Model(
    name="toy-captions", version="1", digest="1" * 64, profile="portable", is_default=True, task=TASK_CAPTIONING
)


class Behaviour:
    """Does what the names of models say, and counts the calls that are in the server."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._calls: Counter[str] = Counter()

    async def behave(self, model: str, context: grpc.aio.ServicerContext[Any, Any]) -> int:
        """Wait or fail as told; return the largest number of calls that were in the server meanwhile."""
        self._in_flight += 1
        most = self._in_flight
        try:
            behaviour, *words = model.split("-")
            if behaviour == "fail":
                await self._maybe_fail(model, words[0], int(words[1]), context)
            if behaviour == "delay":
                await asyncio.sleep(int(words[0]) / 1000)
            return max(most, self._in_flight)
        finally:
            self._in_flight -= 1

    async def _maybe_fail(
        self, model: str, code: str, percent: int, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        # Evenly spread, so that any run of calls has the stated share.
        before = self._calls[model] * percent // 100
        self._calls[model] += 1
        if self._calls[model] * percent // 100 > before:
            await context.abort(grpc.StatusCode[code], f"the toy fails {percent} % of these calls")


class ToyTranslation(TranslationServiceServicer):
    """Echoes. `mean_batch_rows` of every reply is the largest number of calls that were in the server with it."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def Translate(  # noqa: N802 - the name is in the contract
        self, request: TranslateRequest, context: grpc.aio.ServicerContext[TranslateRequest, TranslateResponse]
    ) -> TranslateResponse:
        """Behave as the name of the model says."""
        most = await self._behaviour.behave(request.model, context)
        attention = request.HasField("attention")
        return TranslateResponse(
            model=_reference(TOY),
            results=[
                TranslationResult(text=text, segments=segments(text, most, attention=attention))
                for text in request.texts
            ],
        )

    async def ScoreTranslation(  # noqa: N802 - the name is in the contract
        self,
        request: ScoreTranslationRequest,
        context: grpc.aio.ServicerContext[ScoreTranslationRequest, ScoreTranslationResponse],
    ) -> ScoreTranslationResponse:
        """Align the i-th word of the target with the i-th of the source."""
        results = [ScoreResult(segment=aligned(pair.source, pair.target)) for pair in request.pairs]
        return ScoreTranslationResponse(model=ModelReference(name=TOY.name, version=TOY.version), results=results)


class ToyCaptioning(CaptioningServiceServicer):
    """Reads a picture out, if it is text; every word looks at the middle."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def Caption(  # noqa: N802 - the name is in the contract
        self, request: CaptionRequest, context: grpc.aio.ServicerContext[CaptionRequest, CaptionResponse]
    ) -> CaptionResponse:
        """Behave as the name of the model says; a picture without bytes fails alone."""
        most = await self._behaviour.behave(request.model, context)
        behaviour, _, said = request.model.partition("-")
        texts = [said.replace("-", " ") if behaviour == "say" else as_text(image) for image in request.images]
        return CaptionResponse(
            model=_reference(CAPTIONER),
            results=[captioned(text, most, attention=request.HasField("attention")) for text in texts],
        )


class ToyModels(ModelServiceServicer):
    """Lists two fake models."""

    async def ListModels(  # noqa: N802 - the name is in the contract
        self, request: ListModelsRequest, context: grpc.aio.ServicerContext[ListModelsRequest, ListModelsResponse]
    ) -> ListModelsResponse:
        """The toys."""
        limits = ServerLimits(max_texts=128, max_text_bytes=65536, max_beam_size=16, max_message_bytes=32 * 2**20)
        return ListModelsResponse(models=[TOY, CAPTIONER], limits=limits)

    async def GetModel(  # noqa: N802 - the name is in the contract
        self, request: GetModelRequest, context: grpc.aio.ServicerContext[GetModelRequest, GetModelResponse]
    ) -> GetModelResponse:
        """The toy."""
        return GetModelResponse(model=TOY)


def _reference(model: Model) -> ModelReference:
    return ModelReference(name=model.name, version=model.version, digest=model.digest, profile=model.profile)


def add_toy(server: grpc.aio.Server) -> None:
    """Attach the toy to a server, with a health check that is always content."""

    async def check(_: bytes, __: object) -> bytes:
        return SERVING

    library: Any = grpc
    health = library.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers((library.method_handlers_generic_handler(HEALTH, {"Check": health}),))
    behaviour = Behaviour()
    add_TranslationServiceServicer_to_server(ToyTranslation(behaviour), server)
    add_CaptioningServiceServicer_to_server(ToyCaptioning(behaviour), server)
    add_ModelServiceServicer_to_server(ToyModels(), server)


async def _serve(port_file: Path) -> None:
    server = grpc.aio.server()
    add_toy(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Whoever starts a process with SIGINT ignored wants Ctrl-C to spare it.
        if number != signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, over.set)
    write_text(port_file, str(port))
    await over.wait()
    await server.stop(grace=0.1)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m regard.loadtest.toy.server", description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True, help="where to write the port once it answers")
    asyncio.run(_serve(parser.parse_args().port_file))


if __name__ == "__main__":
    main()

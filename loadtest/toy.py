"""A server with known delays and failures, to test the generator: `python -m loadtest.toy --port-file FILE`.

It does not know any model: a translation is its source, word by word, and the name of the model says how to behave:
`delay-500` answers after 500 ms, `fail-UNAVAILABLE-20` fails every fifth call so, anything else echoes at once.
"""

import argparse
import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from regard.v1.attention_pb2 import ATTENTION_ENCODING_FLOAT32, Attention, Span, Token
from regard.v1.decoding_pb2 import FINISH_REASON_END, FINISH_REASON_FORCED, Hypothesis, ModelReference, Timing
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
    Segment,
    TranslateRequest,
    TranslateResponse,
    TranslationResult,
)
from regard.v1.translation_pb2_grpc import TranslationServiceServicer, add_TranslationServiceServicer_to_server

HEALTH = "grpc.health.v1.Health"
# A HealthCheckResponse that says SERVING.
SERVING = b"\x08\x01"
TOY = Model(name="toy", version="1", digest="0" * 64, profile="portable", is_default=True)


class ToyTranslation(TranslationServiceServicer):
    """Echoes. `mean_batch_rows` of every reply is the largest number of calls that were in the server with it."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._calls: Counter[str] = Counter()

    async def Translate(  # noqa: N802 - the name is in the contract
        self, request: TranslateRequest, context: grpc.aio.ServicerContext[TranslateRequest, TranslateResponse]
    ) -> TranslateResponse:
        """Behave as the name of the model says."""
        self._in_flight += 1
        most = self._in_flight
        try:
            behaviour, *words = request.model.split("-")
            if behaviour == "fail":
                await self._maybe_fail(request.model, words[0], int(words[1]), context)
            if behaviour == "delay":
                await asyncio.sleep(int(words[0]) / 1000)
            most = max(most, self._in_flight)
        finally:
            self._in_flight -= 1
        return TranslateResponse(
            model=ModelReference(name=TOY.name, version=TOY.version, digest=TOY.digest, profile=TOY.profile),
            results=[TranslationResult(text=text, segments=_segments(text, most)) for text in request.texts],
        )

    async def ScoreTranslation(  # noqa: N802 - the name is in the contract
        self,
        request: ScoreTranslationRequest,
        context: grpc.aio.ServicerContext[ScoreTranslationRequest, ScoreTranslationResponse],
    ) -> ScoreTranslationResponse:
        """Align the i-th word of the target with the i-th of the source."""
        results = [ScoreResult(segment=_aligned(pair.source, pair.target)) for pair in request.pairs]
        return ScoreTranslationResponse(model=ModelReference(name=TOY.name, version=TOY.version), results=results)

    async def _maybe_fail(
        self,
        model: str,
        code: str,
        percent: int,
        context: grpc.aio.ServicerContext[TranslateRequest, TranslateResponse],
    ) -> None:
        # Evenly spread, so that any run of calls has the stated share.
        before = self._calls[model] * percent // 100
        self._calls[model] += 1
        if self._calls[model] * percent // 100 > before:
            await context.abort(grpc.StatusCode[code], f"the toy fails {percent} % of these calls")


class ToyModels(ModelServiceServicer):
    """Holds one model that is none."""

    async def ListModels(  # noqa: N802 - the name is in the contract
        self, request: ListModelsRequest, context: grpc.aio.ServicerContext[ListModelsRequest, ListModelsResponse]
    ) -> ListModelsResponse:
        """The toy."""
        limits = ServerLimits(max_texts=128, max_text_bytes=65536, max_beam_size=16, max_message_bytes=32 * 2**20)
        return ListModelsResponse(models=[TOY], limits=limits)

    async def GetModel(  # noqa: N802 - the name is in the contract
        self, request: GetModelRequest, context: grpc.aio.ServicerContext[GetModelRequest, GetModelResponse]
    ) -> GetModelResponse:
        """The toy."""
        return GetModelResponse(model=TOY)


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    for number, word in enumerate(text.split()):
        start = text.encode().index(word.encode(), at)
        at = start + len(word.encode())
        tokens.append(Token(id=number + 4, piece=word, span=Span(start=start, end=at), log_probability=-0.1))
    return tokens


def _segments(text: str, rows: int) -> list[Segment]:
    if not text.strip():
        return []
    hypothesis = Hypothesis(text=text, score=-0.1, finish_reason=FINISH_REASON_END, tokens=_tokens(text))
    span = Span(start=0, end=len(text.encode()))
    timing = Timing(steps=len(hypothesis.tokens), mean_batch_rows=rows)
    return [Segment(source_span=span, source_tokens=_tokens(text), hypotheses=[hypothesis], timing=timing)]


def _aligned(source: str, target: str) -> Segment:
    columns = [*_tokens(source), Token(id=3, piece="</s>")]
    rows = _tokens(target)
    weights = np.full((len(rows), len(columns)), 0.1 / len(columns), dtype="<f4")
    for i in range(len(rows)):
        weights[i, min(i, len(columns) - 2)] += 0.9
    attention = Attention(
        axes=["target", "source"], shape=weights.shape, encoding=ATTENTION_ENCODING_FLOAT32, values=weights.tobytes()
    )
    hypothesis = Hypothesis(text=target, finish_reason=FINISH_REASON_FORCED, tokens=rows, attention=attention)
    return Segment(source_tokens=columns, hypotheses=[hypothesis])


def add_toy(server: grpc.aio.Server) -> None:
    """Attach the toy to a server, with a health check that is always content."""

    async def check(_: bytes, __: object) -> bytes:
        return SERVING

    library: Any = grpc
    health = library.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers((library.method_handlers_generic_handler(HEALTH, {"Check": health}),))
    add_TranslationServiceServicer_to_server(ToyTranslation(), server)
    add_ModelServiceServicer_to_server(ToyModels(), server)


async def _serve(port_file: Path) -> None:
    server = grpc.aio.server()
    add_toy(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(port), encoding="utf-8")
    partial.rename(port_file)
    await over.wait()
    await server.stop(grace=0.1)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.toy", description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True, help="where to write the port once it answers")
    asyncio.run(_serve(parser.parse_args().port_file))


if __name__ == "__main__":
    main()

"""A real gRPC server with fixed answers: every word is answered in capitals, looking at itself; pictures are captioned.

Knows nothing of the server that it stands in for.
"""

# ruff: noqa: N802  # methods have the names that the proto gives them
from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Never

import google.rpc.error_details_pb2 as error_details_pb2
import google.rpc.status_pb2 as status_pb2
import grpc
import numpy as np
from google.protobuf import any_pb2
from google.protobuf.message import Message
from numpy.typing import NDArray

from regard.v1 import (
    attention_pb2,
    bundle_pb2,
    captioning_pb2,
    captioning_pb2_grpc,
    decoding_pb2,
    model_pb2,
    model_pb2_grpc,
    translation_pb2,
    translation_pb2_grpc,
)

Translate = Callable[[translation_pb2.TranslateRequest, grpc.ServicerContext], translation_pb2.TranslateResponse]

CaptionAnswer = Callable[[captioning_pb2.CaptionRequest, grpc.ServicerContext], captioning_pb2.CaptionResponse]

ROWS, COLUMNS = 2, 3  # cells of the maps of captions

MODEL = decoding_pb2.ModelReference(name="toy", version="2", digest="abc123", profile="cpu")


def span(start: int, end: int) -> attention_pb2.Span:
    return attention_pb2.Span(start=start, end=end)


def words_of(text: str) -> list[tuple[str, int, int]]:
    """Return words with their byte offsets."""
    return [(m[0].decode(), m.start(), m.end()) for m in re.finditer(rb"[^\s]+", text.encode())]


def attention_of(options: attention_pb2.AttentionOptions, weights: NDArray[np.float32]) -> attention_pb2.Attention:
    """Encode weights [target, source] as the options ask for."""
    stored = {0: "<f4", 1: "<f4", 2: "<f2", 3: "u1"}[options.encoding]
    scale = 255 if options.encoding == attention_pb2.ATTENTION_ENCODING_UINT8 else 1
    axes = ["target", "source"]
    indices = b""
    if options.reduction == attention_pb2.ATTENTION_REDUCTION_NONE:
        weights = np.stack([weights, weights])[:, None]
        axes = ["layer", "head", *axes]
    if options.HasField("top_k"):
        order = np.argsort(-weights, axis=-1, kind="stable")[..., : options.top_k]
        weights = np.take_along_axis(weights, order, axis=-1)
        indices = order.astype("<u2").tobytes()
    return attention_pb2.Attention(
        axes=axes,
        shape=weights.shape,
        encoding=options.encoding,
        values=(weights * scale).round(6).astype(stored).tobytes(),
        indices=indices,
    )


def segment_of(
    text: str, options: attention_pb2.AttentionOptions | None, n_best: int = 1
) -> translation_pb2.Segment | None:
    """Answer a sentence; None if it has no word."""
    words = words_of(text)
    if not words:
        return None
    source_tokens = [attention_pb2.Token(id=i, piece=w, span=span(a, b)) for i, (w, a, b) in enumerate(words)]
    source_words = [
        attention_pb2.Word(span=span(a, b), first_token=i, token_count=1) for i, (_, a, b) in enumerate(words)
    ]
    end = len(text.encode())
    source_tokens.append(attention_pb2.Token(id=3, piece="</s>", span=span(end, end)))
    source_words.append(attention_pb2.Word(span=span(end, end), first_token=len(words), token_count=1))
    target = " ".join(word.upper() for word, _, _ in words)
    target_words = words_of(target)
    weights = np.eye(len(words), len(words) + 1, dtype=np.float32) * 0.75
    weights[:, -1] = 0.25
    hypothesis = decoding_pb2.Hypothesis(
        text=target,
        score=-0.5,
        finish_reason=decoding_pb2.FINISH_REASON_END,
        tokens=[
            attention_pb2.Token(id=i, piece=w, span=span(a, b), log_probability=-0.25)
            for i, (w, a, b) in enumerate(target_words)
        ],
        words=[
            attention_pb2.Word(span=span(a, b), first_token=i, token_count=1)
            for i, (_, a, b) in enumerate(target_words)
        ],
        alignments=[
            attention_pb2.Alignment(
                source_word=i,
                target_word=i,
                source_span=span(*words[i][1:]),
                target_span=span(*target_words[i][1:]),
                weight=0.75,
            )
            for i in range(len(words))
        ],
        attention=None if options is None else attention_of(options, weights),
    )
    others = [decoding_pb2.Hypothesis(text=f"{target} {rank}", score=-rank) for rank in range(2, n_best + 1)]
    return translation_pb2.Segment(
        source_span=span(0, end),
        source_tokens=source_tokens,
        source_words=source_words,
        hypotheses=[hypothesis, *others],
        timing=decoding_pb2.Timing(steps=len(words), mean_batch_rows=1.0),
    )


def answer(request: translation_pb2.TranslateRequest, _: grpc.ServicerContext) -> translation_pb2.TranslateResponse:
    """Answer every text; one that begins with `!` fails alone."""
    options = request.attention if request.HasField("attention") else None
    results: list[translation_pb2.TranslationResult] = []
    for index, text in enumerate(request.texts):
        if text.startswith("!"):
            error = decoding_pb2.ItemError(code=3, message=f"bad {text}", field=f"texts[{index}]")
            results.append(translation_pb2.TranslationResult(error=error))
            continue
        segment = segment_of(text, options, max(1, request.decoding.n_best))
        results.append(
            translation_pb2.TranslationResult(text=segment.hypotheses[0].text, segments=[segment])
            if segment is not None
            else translation_pb2.TranslationResult()
        )
    return translation_pb2.TranslateResponse(model=MODEL, results=results)


def caption_of(
    data: bytes, options: attention_pb2.AttentionOptions | None, n_best: int = 1
) -> captioning_pb2.CaptionResult:
    """Caption what is text by itself, anything else as `a red square`; word i looks at cell i, row by row."""
    text = data.decode() if data.isascii() else "a red square"
    words = words_of(text)
    maps = np.zeros((len(words), ROWS * COLUMNS), dtype=np.float32)
    maps[np.arange(len(words)), np.arange(len(words)) % (ROWS * COLUMNS)] = 1
    attention = None
    if options is not None:
        attention = attention_of(options, maps)
        attention.axes[-1:] = ["source"] if attention.indices else ["row", "column"]
        attention.shape[-1:] = [attention.shape[-1]] if attention.indices else [ROWS, COLUMNS]
    best = decoding_pb2.Hypothesis(
        text=text,
        score=-0.5,
        finish_reason=decoding_pb2.FINISH_REASON_END,
        tokens=[attention_pb2.Token(id=i, piece=w, span=span(a, b)) for i, (w, a, b) in enumerate(words)],
        words=[attention_pb2.Word(span=span(a, b), first_token=i, token_count=1) for i, (_, a, b) in enumerate(words)],
        attention=attention,
    )
    others = [decoding_pb2.Hypothesis(text=f"{text} {rank}", score=-rank) for rank in range(2, n_best + 1)]
    return captioning_pb2.CaptionResult(
        text=text,
        hypotheses=[best, *others],
        image=captioning_pb2.Image(format="PNG", width=60, height=40, orientation=1, rows=ROWS, columns=COLUMNS),
        timing=decoding_pb2.Timing(steps=len(words), mean_batch_rows=1.0),
    )


def answer_pictures(
    request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext
) -> captioning_pb2.CaptionResponse:
    """Caption every picture; one that begins with `!` fails alone, and as a call where it is the only one."""
    options = request.attention if request.HasField("attention") else None
    results: list[captioning_pb2.CaptionResult] = []
    for index, data in enumerate(request.images):
        if not data.startswith(b"!"):
            results.append(caption_of(data, options, max(1, request.decoding.n_best)))
            continue
        if len(request.images) == 1:
            refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "bad", violation("images[0]", "is no picture"))
        error = decoding_pb2.ItemError(code=3, message="is no picture", field=f"images[{index}]")
        results.append(captioning_pb2.CaptionResult(error=error))
    return captioning_pb2.CaptionResponse(model=MODEL, results=results)


def refuse(
    context: grpc.ServicerContext, code: grpc.StatusCode, message: str, *details: Message, pushback: str = ""
) -> Never:
    """End a call with a status and its details."""
    packed: list[any_pb2.Any] = []
    for detail in details:
        box = any_pb2.Any()
        box.Pack(detail)
        packed.append(box)
    number: int = code.value[0]
    status = status_pb2.Status(code=number, message=message, details=packed)
    metadata: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", status.SerializeToString())]
    if pushback:
        metadata.append(("grpc-retry-pushback-ms", pushback))
    context.set_trailing_metadata(tuple(metadata))
    context.abort(code, message)


def violation(field: str, description: str) -> error_details_pb2.BadRequest:
    return error_details_pb2.BadRequest(
        field_violations=[error_details_pb2.BadRequest.FieldViolation(field=field, description=description)]
    )


class FakeServer(
    translation_pb2_grpc.TranslationServiceServicer,
    captioning_pb2_grpc.CaptioningServiceServicer,
    model_pb2_grpc.ModelServiceServicer,
):
    """Answers, and remembers what it was asked.

    Attributes:
        translate: answers `Translate`; to be replaced by tests.
        caption: answers `Caption`; to be replaced by tests.
        health: answer of the health check, as bytes.
        lists_captioner: whether a captioner is among the models that it tells of.
    """

    def __init__(self) -> None:
        self.address = ""
        self.translate: Translate = answer
        self.health = b"\x08\x01"
        self.lists_captioner = True
        self.caption: CaptionAnswer = answer_pictures
        self.requests: list[translation_pb2.TranslateRequest] = []
        self.caption_requests: list[captioning_pb2.CaptionRequest] = []
        self._lock = threading.Lock()

    def Translate(
        self, request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        with self._lock:
            self.requests.append(request)
        return self.translate(request, context)

    def Caption(
        self, request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext
    ) -> captioning_pb2.CaptionResponse:
        with self._lock:
            self.caption_requests.append(request)
        return self.caption(request, context)

    def ScoreTranslation(
        self, request: translation_pb2.ScoreTranslationRequest, context: grpc.ServicerContext
    ) -> translation_pb2.ScoreTranslationResponse:
        results: list[translation_pb2.ScoreResult] = []
        for pair in request.pairs:
            segment = segment_of(pair.source, request.attention if request.HasField("attention") else None)
            results.append(translation_pb2.ScoreResult(segment=segment))
        return translation_pb2.ScoreTranslationResponse(model=MODEL, results=results)

    def ListModels(
        self, request: model_pb2.ListModelsRequest, context: grpc.ServicerContext
    ) -> model_pb2.ListModelsResponse:
        return model_pb2.ListModelsResponse(models=[*[self.captioner()] * self.lists_captioner, self.model()])

    def GetModel(self, request: model_pb2.GetModelRequest, context: grpc.ServicerContext) -> model_pb2.GetModelResponse:
        if request.name not in ("", "toy"):
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model {request.name!r}; this server holds toy")
        return model_pb2.GetModelResponse(model=self.model(), bundle=bundle_pb2.Bundle(name="toy", format_version=1))

    def check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return self.health

    def model(self) -> model_pb2.Model:
        return model_pb2.Model(
            name="toy",
            version="2",
            digest="abc123",
            task=bundle_pb2.TASK_TRANSLATION,
            source_languages=["en"],
            target_languages=["es"],
            profile="cpu",
            is_default=True,
            description="words in capitals",
        )

    def captioner(self) -> model_pb2.Model:
        return model_pb2.Model(
            name="captions",
            version="1",
            digest="def456",
            task=bundle_pb2.TASK_CAPTIONING,
            target_languages=["en"],
            profile="cpu",
            description="red squares",
        )


@contextmanager
def running_fake_server() -> Generator[FakeServer]:
    fake = FakeServer()
    with ThreadPoolExecutor(8) as executor:
        server = grpc.server(executor, options=[("grpc.so_reuseport", 0)])
        translation_pb2_grpc.add_TranslationServiceServicer_to_server(fake, server)
        captioning_pb2_grpc.add_CaptioningServiceServicer_to_server(fake, server)
        model_pb2_grpc.add_ModelServiceServicer_to_server(fake, server)
        check: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(fake.check)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})]
        )
        fake.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield fake
        finally:
            server.stop(None).wait()

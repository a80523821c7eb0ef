"""What the cases share: their input files, the server that they are tried on, replies with status, and outcomes."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc
from tests.acceptance.picture_inputs import picture_inputs
from tests.acceptance.text_inputs import text_inputs

from regard.client.channel import channel_options
from regard.client.health import CHECK_METHOD, WHOLE_SERVER
from regard.v1.attention_pb2 import AttentionOptions
from regard.v1.bundle_pb2 import TASK_TRANSLATION
from regard.v1.decoding_pb2 import FINISH_REASON_END, FINISH_REASON_LENGTH, DecodingOptions
from regard.v1.model_pb2 import GetModelRequest, ListModelsRequest, ServerLimits
from regard.v1.model_pb2_grpc import ModelServiceStub
from regard.v1.translation_pb2 import Segment, TranslateRequest, TranslateResponse, TranslationResult
from regard.v1.translation_pb2_grpc import TranslationServiceStub

TRANSLATE = "/regard.v1.TranslationService/Translate"
SECONDS = 60.0

Sent = TypeVar("Sent")
Got = TypeVar("Got")


class Outcome(NamedTuple):
    """One thing tried. `ok` is None where it could not be tried."""

    case: str
    tried: str
    expected: str
    got: str
    ok: bool | None


class Reply(NamedTuple):
    """How a call ended."""

    code: str
    details: str
    response: TranslateResponse
    seconds: float

    @property
    def results(self) -> Sequence[TranslationResult]:
        """One for each text."""
        return self.response.results

    @property
    def segments(self) -> Sequence[Segment]:
        """The sentences of the first text."""
        return self.response.results[0].segments if self.response.results else ()

    @property
    def text(self) -> str:
        """The translation of the first text."""
        return self.response.results[0].text if self.response.results else ""

    @property
    def short(self) -> str:
        """The status and what belongs to it, in a line."""
        if self.code != "OK":
            return f"{self.code}: {self.details[:110]}"
        return f"OK in {self.seconds:.2f} s: {self.text[:60]!r}"


class Inputs:
    """The input files by name, made when they are first asked for; pictures take some seconds."""

    @cached_property
    def texts(self) -> Mapping[str, bytes]:
        """The texts."""
        return text_inputs()

    @cached_property
    def pictures(self) -> Mapping[str, bytes]:
        """The pictures."""
        return picture_inputs()

    def __getitem__(self, name: str) -> bytes:
        """The bytes of a file. Raises KeyError if there is none of that name."""
        return self.texts[name] if name in self.texts else self.pictures[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseServer:
    """The server on which cases are tried.

    Attributes:
        address: where it listens.
        channel: with the message limits of our client, without its retries, which would hide a status.
        inputs: the input files of the cases.
        limits: as the server states them.
        max_source_tokens: of the default model.
        max_target_tokens: of the default model.
        log: what the server writes; None if it is not ours.
        process: number of its process; None if it is not ours.
        translates: whether it has a model for that.
    """

    address: str
    channel: grpc.Channel
    inputs: Inputs
    limits: ServerLimits
    max_source_tokens: int
    max_target_tokens: int
    log: Path | None
    process: int | None = None
    translates: bool = True

    def read(self, name: str) -> str:
        """An input file as text. Raises KeyError if there is none of that name."""
        return self.bytes(name).decode("utf-8")

    def bytes(self, name: str) -> "bytes":
        """An input file. Raises KeyError if there is none of that name."""
        return self.inputs[name]

    def translate(
        self,
        *texts: str,
        attention: AttentionOptions | None = None,
        seconds: float = SECONDS,
        **decoding: Any,
    ) -> Reply:
        """Translate with the default model and some decoding options; never raises for a status."""
        request = TranslateRequest(texts=texts, decoding=DecodingOptions(**decoding), attention=attention)
        return self._timed(lambda: TranslationServiceStub(self.channel).Translate(request, timeout=seconds))

    def send_bytes(self, body: "bytes", seconds: float = SECONDS) -> Reply:
        """Send the bytes of a TranslateRequest as they are."""
        channel: Any = self.channel
        call = channel.unary_unary(TRANSLATE, None, TranslateResponse.FromString)
        return self._timed(lambda: call(body, timeout=seconds))

    def seconds_of_health(self) -> float:
        """How long a health check takes; infinite if it fails."""
        began = time.monotonic()
        try:
            self.channel.unary_unary(CHECK_METHOD, None, None)(WHOLE_SERVER, timeout=10)
        except grpc.RpcError:
            return float("inf")
        return time.monotonic() - began

    def bound_of(self, segment: Segment) -> int:
        """Most tokens of the translation of a sentence: twice its own and ten, within the limit of the model."""
        return min(2 * len(segment.source_tokens) + 10, self.max_target_tokens)

    def bounded(self, reply: Reply) -> bool:
        """Whether the call ended as it may: refused in words, or with answers that end or say that they are cut."""
        if reply.code == "INVALID_ARGUMENT":
            return bool(reply.details)
        finished = (FINISH_REASON_END, FINISH_REASON_LENGTH)
        return reply.code == "OK" and all(
            hypothesis.finish_reason in finished and len(hypothesis.tokens) <= self.bound_of(segment)
            for result in reply.results
            for segment in result.segments
            for hypothesis in segment.hypotheses
        )

    def _timed(self, call: Callable[[], TranslateResponse]) -> Reply:
        began = time.monotonic()
        try:
            response = call()
        except grpc.RpcError as error:
            return Reply(*status_of(error), TranslateResponse(), time.monotonic() - began)
        return Reply("OK", "", response, time.monotonic() - began)


def connect(address: str, inputs: Inputs, log: Path | None, process: int | None = None) -> CaseServer:
    """Ask a server for its limits. Raises grpc.RpcError."""
    options = [option for option in channel_options(address) if option[0] != "grpc.service_config"]
    channel = grpc.insecure_channel(address, [*options, ("grpc.enable_retries", 0)])
    models = ModelServiceStub(channel)
    listed = models.ListModels(ListModelsRequest(), timeout=SECONDS)
    bundle = models.GetModel(GetModelRequest(), timeout=SECONDS).bundle
    return CaseServer(
        address=address,
        channel=channel,
        inputs=inputs,
        limits=listed.limits,
        max_source_tokens=bundle.limits.max_source_tokens,
        max_target_tokens=bundle.limits.max_target_tokens,
        log=log,
        process=process,
        translates=any(model.task == TASK_TRANSLATION for model in listed.models),
    )


def status_of(error: grpc.RpcError) -> tuple[str, str]:
    """Name of the status and what came with it."""
    call: Any = error
    return call.code().name, call.details() or ""


def together(call: Callable[[Sent], Got], inputs: Iterable[Sent], *, at_once: int) -> list[Got]:
    """Make calls side by side; results in order."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(call, inputs))


def span_is_whole(text: str, start: int, end: int) -> bool:
    """Whether a range of bytes lies within a text and cuts no character."""
    encoded = text.encode()
    if not 0 <= start <= end <= len(encoded):
        return False
    return all(at == len(encoded) or encoded[at] & 0xC0 != 0x80 for at in (start, end))

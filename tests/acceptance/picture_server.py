"""What the cases about pictures share: a server as a captioner, its replies, and its maps.

It does not know any case.
"""

import functools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
from numpy.typing import NDArray
from tests.acceptance.case_server import SECONDS, CaseServer, Outcome, status_of

from regard.v1.attention_pb2 import AttentionOptions
from regard.v1.bundle_pb2 import TASK_CAPTIONING
from regard.v1.captioning_pb2 import CaptionRequest, CaptionResponse, Image
from regard.v1.captioning_pb2_grpc import CaptioningServiceStub
from regard.v1.decoding_pb2 import DecodingOptions
from regard.v1.model_pb2 import ListModelsRequest
from regard.v1.model_pb2_grpc import ModelServiceStub

# Lossy files of one scene differ by some levels of brightness, which moves a map by a few hundredths.
MAP_TOLERANCE = 0.1
# Files that were made in other colours differ by more: a trained captioner may say "tent" for "building" at the end and
# moves up to a sixth of a map. Inverted, turned, mirrored or in other colours, the scene of the reference keeps two
# thirds of the words at most and moves a fifth of the maps at least.
LEAST_WORDS = 0.75
MOST_MOVED = 0.18
TRIES = 5

Try = Callable[[CaseServer], list[Outcome]]


class Seen(NamedTuple):
    """How a call for one picture ended.

    Attributes:
        maps: float32 [token, row, column]; empty if the call failed or the model has none.
    """

    code: str
    details: str
    text: str
    image: Image
    maps: NDArray[np.float32]
    finite: bool
    seconds: float

    @property
    def short(self) -> str:
        """The status and what belongs to it, in a line."""
        if self.code != "OK":
            return f"{self.code}: {self.details[:110]}"
        return f"OK in {self.seconds:.2f} s: {self.text[:60]!r}"

    @property
    def refused(self) -> bool:
        """Whether it is the caller's error, said in a sentence without addresses of objects."""
        return self.code == "INVALID_ARGUMENT" and bool(self.details) and "object at 0x" not in self.details

    @property
    def sound(self) -> bool:
        """Whether it is an answer of finite numbers."""
        return self.code == "OK" and self.finite

    def like(self, other: "Seen") -> bool:
        """Whether the same was said and looked at, within what lossy files lose."""
        if not (self.code == other.code == "OK") or self.text != other.text or self.maps.shape != other.maps.shape:
            return False
        return not self.maps.size or float(np.abs(self.maps - other.maps).max()) <= MAP_TOLERANCE

    def near(self, other: "Seen") -> bool:
        """Whether nearly the same was said and looked at, as of one scene in colours that were converted."""
        if not self.code == other.code == "OK" or self.maps.shape[1:] != other.maps.shape[1:]:
            return False
        ours, theirs = self.text.split(), other.text.split()
        shared = sum((Counter(ours) & Counter(theirs)).values())
        if 2 * shared < LEAST_WORDS * (len(ours) + len(theirs)):
            return False
        # Up to where captions part, and the look that parted them.
        prefix = next((n for n, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two), len(ours))
        count = min(prefix + 1, len(self.maps), len(other.maps))
        if not count or not self.maps.size:
            return True
        moved = np.abs(self.maps[:count] - other.maps[:count]).sum(axis=(1, 2)) / 2
        return float(moved.mean()) <= MOST_MOVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioner:
    """A server that captions."""

    server: CaseServer
    attention: AttentionOptions | None

    def read(self, name: str) -> Seen:
        """Caption an input file. Raises KeyError if there is none of that name."""
        return self.see(self.server.bytes(name))

    def see(self, picture: "bytes", **decoding: Any) -> Seen:
        """Caption a picture; never raises for a status."""
        request = CaptionRequest(images=[picture], decoding=DecodingOptions(**decoding), attention=self.attention)
        began = time.monotonic()
        try:
            response = CaptioningServiceStub(self.server.channel).Caption(request, timeout=SECONDS)
        except grpc.RpcError as error:
            nothing = np.zeros((0, 0, 0), dtype=np.float32)
            return Seen(*status_of(error), "", Image(), nothing, True, time.monotonic() - began)
        return _seen(response, time.monotonic() - began)


def find_captioner(server: CaseServer) -> Captioner | None:
    """The server as a captioner, if it has a model for that. Raises grpc.RpcError."""
    models = ModelServiceStub(server.channel).ListModels(ListModelsRequest(), timeout=SECONDS).models
    if not any(model.task == TASK_CAPTIONING for model in models):
        return None
    asked = Captioner(server=server, attention=AttentionOptions())
    # A model without attention refuses to be asked for it.
    plain = Captioner(server=server, attention=None)
    return plain if asked.see(plain_picture()).code == "FAILED_PRECONDITION" else asked


def with_captioner(case: str, tried: str) -> Callable[[Callable[[Captioner], list[Outcome]]], Try]:
    """Try a case where something captions, and say so where nothing does."""

    def wrap(trial: Callable[[Captioner], list[Outcome]]) -> Try:
        @functools.wraps(trial)
        def run(server: CaseServer) -> list[Outcome]:
            captioner = find_captioner(server)
            if captioner is None:
                return [Outcome(case, tried, "a caption", "no captioning model on this server", None)]
            return trial(captioner)

        return run

    return wrap


def plain_picture() -> bytes:
    """A grey picture of 8 x 8 pixels, as a BMP file, which needs no library to write."""
    side, offset = 8, 54
    pixels = b"\x80" * (3 * side * side)
    head = b"BM" + (offset + len(pixels)).to_bytes(4, "little") + bytes(4) + offset.to_bytes(4, "little")
    about = (40).to_bytes(4, "little") + side.to_bytes(4, "little") * 2 + (1).to_bytes(2, "little")
    return head + about + (24).to_bytes(2, "little") + bytes(24) + pixels


def most_memory(server: CaseServer) -> float | None:
    """Most memory that a server has had so far, MiB; None if it is not ours or the system does not say."""
    status = Path(f"/proc/{server.process}/status")
    if server.process is None or not status.is_file():
        return None
    lines = status.read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def quickest(server: Captioner, name: str) -> Seen:
    """The quickest of some calls: one beside other work waits now and then; what counts is that it can be quick."""
    return min((server.read(name) for _ in range(TRIES)), key=lambda seen: seen.seconds)


def _seen(response: CaptionResponse, seconds: float) -> Seen:
    result = response.results[0]
    best = result.hypotheses[0]
    values = np.frombuffer(best.attention.values, dtype="<f4")
    maps = values.reshape(tuple(best.attention.shape)) if best.HasField("attention") else values.reshape(0, 0, 0)
    finite = bool(np.isfinite(best.score) and np.isfinite(maps).all())
    return Seen("OK", "", result.text, result.image, maps, finite, seconds)

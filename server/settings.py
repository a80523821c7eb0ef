"""The settings of a server as frozen, validated dataclasses.

Where a value came from (flag, environment, file) is the business of `regard.server.front.configuration`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from regard.server.errors import SettingsError

EMBEDDED_MODELS = Path(__file__).resolve().parent.parent / "models"
# The better one of the translators among them.
EMBEDDED_DEFAULT = "en-xx"
Device = Literal["auto", "cpu", "cuda"]

DEVICES: tuple[Device, ...] = ("auto", "cpu", "cuda")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
OFF = "off"

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(?P<port>[0-9]{1,5})")
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one call. Whatever exceeds one of them, a call or a single text, gets a clear error.

    Attributes:
        max_texts: texts (or pairs) in a request.
        max_text_bytes: size of one text in UTF-8.
        max_segments_per_call: sentences of all texts of a request.
        max_beam_size: largest beam.
        max_images: pictures in a request.
        max_image_bytes: size of one picture file.
        max_image_pixels: width times height of one picture, read from its header.
        max_message_bytes: size of a request or a reply on the wire.
    """

    max_texts: int = 128
    max_text_bytes: int = 65_536
    max_segments_per_call: int = 512
    max_beam_size: int = 16
    max_images: int = 64
    max_image_bytes: int = 16 * _MEBIBYTE
    max_image_pixels: int = 50_000_000
    max_message_bytes: int = 32 * _MEBIBYTE

    def __post_init__(self) -> None:
        for name in (
            "max_texts",
            "max_text_bytes",
            "max_segments_per_call",
            "max_beam_size",
            "max_images",
            "max_image_bytes",
        ):
            _within(name, getattr(self, name), 1, 2**31 - 1)
        # Pillow warns of more pixels than this, and refuses twice as many.
        _within("max_image_pixels", self.max_image_pixels, 1, 89_478_485)
        _within("max_message_bytes", self.max_message_bytes, 1024, 2**31 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of one server.

    Attributes:
        models: directories that hold NAME/VERSION/ bundles.
        default_model: answers requests that name none; empty takes the better translator of the embedded models where
            these are served, else the registry chooses.
        profile: which graphs to run; empty takes the default of each bundle.
        device: auto, cpu or cuda.
        workers: decode threads; None takes one for each processor that this process may use, and one in all on CUDA.
        rows: rows of one decode step at most, for each worker.
        queue_limit: segments that may wait.
        address: HOST:PORT to listen on; port 0 takes a free one.
        port_file: gets the port once the server is ready; removed when it stops.
        metrics_address: HOST:PORT of the Prometheus page, or `off`.
        reflection: whether clients may list services.
        max_concurrent_calls: calls answered at the same time.
        max_bytes_held: requests, answers and replies of all calls at the same time; one call may hold half.
        max_decoding_bytes: memory that pictures may take while they are decoded, all together; the others wait. One
            that takes more is decoded alone.
        max_connection_age: seconds after which a connection is closed gently; 0 keeps it.
        default_deadline: seconds given to a call whose caller sets no deadline.
        grace: seconds that running calls get when the server is told to stop.
        drain_pause: seconds of normal service after readiness was withdrawn.
        log_level, log_format: see LOG_LEVELS and LOG_FORMATS.
        log_texts: whether texts of callers and messages of unexpected exceptions may appear in logs.
        limits: bounds of one call.
    """

    models: tuple[Path, ...] = (EMBEDDED_MODELS,)
    default_model: str = ""
    profile: str = ""
    device: Device = "auto"
    workers: int | None = None
    rows: int = 64
    queue_limit: int = 1024
    address: str = "127.0.0.1:50051"
    port_file: Path | None = None
    metrics_address: str = "127.0.0.1:9464"
    reflection: bool = True
    max_concurrent_calls: int = 1024
    max_bytes_held: int = 256 * _MEBIBYTE
    max_decoding_bytes: int = 256 * _MEBIBYTE
    max_connection_age: float = 0.0
    default_deadline: float = 60.0
    grace: float = 10.0
    drain_pause: float = 0.0
    log_level: str = "info"
    log_format: str = "text"
    log_texts: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.models:
            raise SettingsError("models: at least one directory is needed")
        _one_of("device", self.device, DEVICES)
        _one_of("log_level", self.log_level, LOG_LEVELS)
        _one_of("log_format", self.log_format, LOG_FORMATS)
        if self.workers is not None:
            _within("workers", self.workers, 1, 1024)
        _within("rows", self.rows, 1, 65_536)
        _at_least("rows", self.rows, self.limits.max_beam_size, "--max-beam-size", "a beam decodes in one step")
        _within("queue_limit", self.queue_limit, 1, 10_000_000)
        most = self.limits.max_segments_per_call
        _at_least("queue_limit", self.queue_limit, most, "--max-segments-per-call", "a call is queued whole or refused")
        _within("max_concurrent_calls", self.max_concurrent_calls, 1, 1_000_000)
        _within("max_bytes_held", self.max_bytes_held, 1, 2**63 - 1)
        largest = 4 * self.limits.max_message_bytes
        reason = "a call may hold half of it, its request and its reply"
        _at_least("max_bytes_held", self.max_bytes_held, largest, "four times --max-message-bytes", reason)
        _within("max_decoding_bytes", self.max_decoding_bytes, _MEBIBYTE, 2**63 - 1)
        _within("max_connection_age", self.max_connection_age, 0, 31_536_000)
        _within("default_deadline", self.default_deadline, 0.001, 86_400)
        _within("grace", self.grace, 0, 86_400)
        _within("drain_pause", self.drain_pause, 0, 86_400)
        split_address("address", self.address)
        if self.metrics_address != OFF:
            split_address("metrics_address", self.metrics_address)


def split_address(name: str, address: str) -> tuple[str, int]:
    """Split HOST:PORT into the host, without brackets, and the port.

    Raises:
        SettingsError: it is not HOST:PORT; the message names the setting.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65_535:
        raise SettingsError(f"{name}: expected HOST:PORT, for example 0.0.0.0:50051 or [::]:50051, got {address!r}")
    return match["host"].strip("[]"), int(match["port"])


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise SettingsError(f"{name}: must be between {low} and {high}, got {value}")


def _at_least(name: str, value: int, least: int, other: str, reason: str) -> None:
    """Refuse a value that does not go with another setting, which `other` names."""
    if value < least:
        raise SettingsError(f"{name}: must be at least {other} ({least}), got {value}: {reason}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name}: must be {', '.join(allowed[:-1])} or {allowed[-1]}, got {value!r}")

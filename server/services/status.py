"""The one table from errors to status codes (google.rpc.Code), with machine-readable details.

Does not know gRPC itself: `regard.server.front.refusal` ends a call with such a status.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message

# The package has no marker for typed packages, though its messages are typed.
from google.rpc import code_pb2, error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from regard.server.errors import (
    AnswerTooLarge,
    CallCancelled,
    CapacityError,
    DeadlinePassed,
    EngineFault,
    InvalidRequest,
    ModelNotFound,
    NotServing,
    QueueFull,
    RegardError,
    TooManyCalls,
    UnsupportedByModel,
)

DOMAIN = "regard.v1"

# Trailers share one header block, of which many clients and proxies accept 8 KiB; details are sent in base64.
_MAX_STATUS_BYTES = 4096
_MAX_MESSAGE_CHARACTERS = 800


def _violation(error: InvalidRequest) -> Message:
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=_shorten(error.field), description=_shorten(error.description)
    )
    return error_details_pb2.BadRequest(field_violations=[violation])


def _missing(error: ModelNotFound) -> Message:
    name = f"{error.name}/{error.version}" if error.version else error.name
    return error_details_pb2.ResourceInfo(
        resource_type="regard.v1.Model", resource_name=_shorten(name), description=_shorten(str(error))
    )


def _reason(error: UnsupportedByModel) -> Message:
    return error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)


def _retry(error: CapacityError) -> Message:
    delay = duration_pb2.Duration()
    delay.FromMilliseconds(retry_milliseconds(error))
    return error_details_pb2.RetryInfo(retry_delay=delay)


# Error, status, details. The first matching row counts; an error that matches none is INTERNAL.
_TABLE: tuple[tuple[type[RegardError], code_pb2.Code, Callable[..., Message] | None], ...] = (
    (InvalidRequest, code_pb2.INVALID_ARGUMENT, _violation),
    (ModelNotFound, code_pb2.NOT_FOUND, _missing),
    (UnsupportedByModel, code_pb2.FAILED_PRECONDITION, _reason),
    (AnswerTooLarge, code_pb2.RESOURCE_EXHAUSTED, None),
    (TooManyCalls, code_pb2.RESOURCE_EXHAUSTED, _retry),
    (QueueFull, code_pb2.RESOURCE_EXHAUSTED, _retry),
    (NotServing, code_pb2.UNAVAILABLE, _retry),
    (DeadlinePassed, code_pb2.DEADLINE_EXCEEDED, None),
    (CallCancelled, code_pb2.CANCELLED, None),
    (EngineFault, code_pb2.INTERNAL, None),
)


def status_number(error: RegardError) -> int:
    """Return the google.rpc.Code of an error, the same number as its gRPC status."""
    return next((code for kind, code, _ in _TABLE if isinstance(error, kind)), code_pb2.INTERNAL)


def to_status(error: RegardError) -> status_pb2.Status:
    """Return what a caller is told about an error: code, message without traceback, and details if they are small."""
    status = status_pb2.Status(code=status_number(error), message=_shorten(str(error)))
    detail = next((describe for kind, _, describe in _TABLE if isinstance(error, kind)), None)
    if detail is not None:
        packed = any_pb2.Any()
        packed.Pack(detail(error))
        if status.ByteSize() + packed.ByteSize() <= _MAX_STATUS_BYTES:
            status.details.append(packed)
    return status


def retry_milliseconds(error: CapacityError) -> int:
    """Return after how many milliseconds a retry makes sense, at least 1."""
    return max(1, math.ceil(error.retry_after * 1000))


def _shorten(text: str) -> str:
    """Truncate text that may quote a caller at length."""
    return text if len(text) <= _MAX_MESSAGE_CHARACTERS else text[: _MAX_MESSAGE_CHARACTERS - 1] + "…"

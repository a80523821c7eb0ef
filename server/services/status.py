"""The one table from domain errors to gRPC statuses, with details that programs can read.

It does not know calls, logs or why an error was raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message

# The package has no marker for typed packages, though its messages are typed.
from google.rpc import code_pb2, error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from regard.server.errors import (
    CallCancelled,
    CapacityError,
    DeadlinePassed,
    EngineFault,
    InvalidRequest,
    ModelNotFound,
    NotServing,
    QueueFull,
    RegardError,
    UnsupportedByModel,
)

DOMAIN = "regard.v1"

# Trailers share one header block, of which many clients and proxies accept 8 KiB; details travel in base64.
_MAX_STATUS_BYTES = 4096
_MAX_MESSAGE_CHARACTERS = 800


class AnswerTooLarge(RegardError):
    """The answer is larger than a call or a message may be; asking again the same way is no use."""


class TooManyCalls(CapacityError):
    """More calls, or more bytes of calls, than the server takes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How one error is told to a caller.

    Attributes:
        code: gRPC status.
        message: a sentence, without traces.
        trailers: metadata: the google.rpc.Status with its details and, where clients try again by themselves, when or
            that they shall not.
    """

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]


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
    delay.FromMilliseconds(_milliseconds(error))
    return error_details_pb2.RetryInfo(retry_delay=delay)


# Error, status, details. The first row that fits counts; whatever fits none is our fault.
_TABLE: tuple[tuple[type[RegardError], grpc.StatusCode, Callable[..., Message] | None], ...] = (
    (InvalidRequest, grpc.StatusCode.INVALID_ARGUMENT, _violation),
    (ModelNotFound, grpc.StatusCode.NOT_FOUND, _missing),
    (UnsupportedByModel, grpc.StatusCode.FAILED_PRECONDITION, _reason),
    (AnswerTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED, None),
    (TooManyCalls, grpc.StatusCode.RESOURCE_EXHAUSTED, _retry),
    (QueueFull, grpc.StatusCode.RESOURCE_EXHAUSTED, _retry),
    (NotServing, grpc.StatusCode.UNAVAILABLE, _retry),
    (DeadlinePassed, grpc.StatusCode.DEADLINE_EXCEEDED, None),
    (CallCancelled, grpc.StatusCode.CANCELLED, None),
    (EngineFault, grpc.StatusCode.INTERNAL, None),
)


def code_of(error: RegardError) -> grpc.StatusCode:
    """The status of an error."""
    return next((code for kind, code, _ in _TABLE if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def number_of(error: RegardError) -> int:
    """The same as a number of google.rpc.Code, for errors of single items."""
    return code_pb2.Code.Value(code_of(error).name)


def report(error: RegardError) -> Report:
    """Everything that a caller is told about an error."""
    code = code_of(error)
    detail = next((describe for kind, _, describe in _TABLE if isinstance(error, kind)), None)
    message = _shorten(str(error))
    status = status_pb2.Status(code=number_of(error), message=message)
    if detail is not None:
        packed = any_pb2.Any()
        packed.Pack(detail(error))
        if status.ByteSize() + packed.ByteSize() <= _MAX_STATUS_BYTES:
            status.details.append(packed)
    trailers: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", status.SerializeToString())]
    if isinstance(error, CapacityError):
        trailers.append(("grpc-retry-pushback-ms", str(_milliseconds(error))))
    elif code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        # Clients try this status again, unless they are told not to.
        trailers.append(("grpc-retry-pushback-ms", "-1"))
    return Report(code=code, message=message, trailers=tuple(trailers))


def _milliseconds(error: CapacityError) -> int:
    return max(1, math.ceil(error.retry_after * 1000))


def _shorten(text: str) -> str:
    """Cut what a caller may have made long; he knows what he sent."""
    return text if len(text) <= _MAX_MESSAGE_CHARACTERS else text[: _MAX_MESSAGE_CHARACTERS - 1] + "…"

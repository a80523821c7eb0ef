"""Turns an error into what ends a call: gRPC status, message and trailing metadata.

The one table of which error has which status is `regard.server.services.status`.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.rpc import code_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status

from regard.server.errors import CapacityError, RegardError
from regard.server.services.status import retry_milliseconds, to_status

_PUSHBACK = "grpc-retry-pushback-ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What ends a call.

    Attributes:
        code: gRPC status.
        message: a sentence, without traces.
        trailers: metadata: the google.rpc.Status with its details and, where clients retry by themselves, when to do so
            or that they must not.
    """

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]


def refusal_of(error: RegardError) -> Refusal:
    """Return how a call ends that failed with `error`."""
    status = to_status(error)
    code = grpc.StatusCode[code_pb2.Code.Name(status.code)]
    trailers: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", status.SerializeToString())]
    if isinstance(error, CapacityError):
        trailers.append((_PUSHBACK, str(retry_milliseconds(error))))
    elif code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        # Clients retry this status unless they are told not to.
        trailers.append((_PUSHBACK, "-1"))
    return Refusal(code=code, message=status.message, trailers=tuple(trailers))

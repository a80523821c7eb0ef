"""Turns what gRPC raises into an error of `regard.client.errors`, with the details unpacked.

Knows nothing of what was asked; one table says which status is which error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import google.rpc.error_details_pb2 as error_details_pb2
import google.rpc.status_pb2 as status_pb2
import grpc
from google.protobuf.message import DecodeError

from regard.client.errors import (
    CallCancelled,
    CannotConnect,
    DeadlinePassed,
    InvalidRequest,
    MessageTooLarge,
    ModelNotFound,
    NotServing,
    RegardCallError,
    ServerBusy,
    ServerFault,
    UnsupportedByModel,
    Violation,
    WrongServer,
)

_CLASSES: dict[grpc.StatusCode, type[RegardCallError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: ModelNotFound,
    grpc.StatusCode.FAILED_PRECONDITION: UnsupportedByModel,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ServerBusy,
    grpc.StatusCode.UNAVAILABLE: NotServing,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlinePassed,
    grpc.StatusCode.CANCELLED: CallCancelled,
    grpc.StatusCode.UNIMPLEMENTED: WrongServer,
    grpc.StatusCode.INTERNAL: ServerFault,
    grpc.StatusCode.UNKNOWN: ServerFault,
    grpc.StatusCode.DATA_LOSS: ServerFault,
}


def call_error(error: grpc.RpcError, address: str, timeout: float | None) -> RegardCallError:
    """Return the error to raise instead, for a call to this address that had `timeout` seconds."""
    code, details = _code(error)
    metadata = _trailing_metadata(error)
    violations, retry_after, reason = _unpack(metadata)
    pushback = metadata.get("grpc-retry-pushback-ms")
    if retry_after is None and isinstance(pushback, str) and pushback.isdigit():
        retry_after = int(pushback) / 1000
    cls = _CLASSES.get(code, RegardCallError)
    # A server that is up says when to come back; a channel that reached nobody cannot.
    if cls is NotServing and retry_after is None:
        cls = CannotConnect
    # There is one status for a full queue and for a message that no waiting will make smaller: our server says of the
    # latter that it must not be sent again, gRPC itself says what is larger than allowed.
    if cls is ServerBusy and retry_after is None and (pushback == "-1" or "larger than max" in details):
        cls = MessageTooLarge
    return cls(
        _message(cls, code, details, address, timeout, retry_after, violations),
        code=code.name,
        retry_after=retry_after,
        violations=violations,
        reason=reason,
    )


def _message(
    cls: type[RegardCallError],
    code: grpc.StatusCode,
    details: str,
    address: str,
    timeout: float | None,
    retry_after: float | None,
    violations: tuple[Violation, ...],
) -> str:
    again = "" if retry_after is None else f"; try again in {retry_after:.2g} s"
    said = details or f"status {code.name}"
    if cls is CannotConnect:
        if "refused" in details.lower() or "no such file" in details.lower():
            return f"no server at {address}; start one with `regard serve`"
        return f"cannot reach {address}: {_last_error(said)}"
    if cls is WrongServer:
        return f"the server at {address} does not offer this: {said}"
    if cls is DeadlinePassed and timeout is not None:
        return f"no answer from {address} within {timeout:g} s"
    if cls is MessageTooLarge:
        return f"too much for one message; send fewer texts or pictures at a time, or ask for less attention ({said})"
    if cls is ServerFault:
        return f"the server failed: {said}"
    if cls is InvalidRequest and violations:
        return "; ".join(f"{field}: {description}" if field else description for field, description in violations)
    return said + again


def _last_error(details: str) -> str:
    """Cut what gRPC puts before the cause; it names no addresses that the caller does not know."""
    return details.rpartition("last error: ")[2]


def _code(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    # An RpcError raised by a call is a Call too; the type that grpc declares does not say so.
    code: Callable[[], grpc.StatusCode] | None = getattr(error, "code", None)
    details: Callable[[], str | None] | None = getattr(error, "details", None)
    if code is None or details is None:
        return grpc.StatusCode.UNKNOWN, str(error)
    return code(), details() or ""


def _trailing_metadata(error: grpc.RpcError) -> dict[str, str | bytes]:
    read: Callable[[], Iterable[tuple[str, str | bytes]] | None] | None = getattr(error, "trailing_metadata", None)
    return dict(read() or ()) if read is not None else {}


def _unpack(metadata: dict[str, str | bytes]) -> tuple[tuple[Violation, ...], float | None, str]:
    """Return the violations, the pause and the reason in the google.rpc.Status of the trailing metadata."""
    violations: list[Violation] = []
    retry_after: float | None = None
    reason = ""
    packed = metadata.get("grpc-status-details-bin", b"")
    try:
        for detail in status_pb2.Status.FromString(packed if isinstance(packed, bytes) else b"").details:
            if detail.Unpack(bad_request := error_details_pb2.BadRequest()):
                violations += [Violation(each.field, each.description) for each in bad_request.field_violations]
            elif detail.Unpack(retry_info := error_details_pb2.RetryInfo()):
                retry_after = retry_info.retry_delay.seconds + retry_info.retry_delay.nanos / 1e9
            elif detail.Unpack(error_info := error_details_pb2.ErrorInfo()):
                reason = error_info.reason
    except DecodeError:
        # Somebody else's bytes under that name: what was read so far, and the status, must do.
        pass
    return tuple(violations), retry_after, reason

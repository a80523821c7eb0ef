"""The errors of a call, in words, as a tree that says what a caller can do about each.

Does not know how a status travels: `regard.client.status` makes these from what gRPC raises.

    RegardCallError
    ├── CannotConnect        nobody listens at the address
    ├── WrongServer          somebody listens, but it is no Regard server
    ├── InvalidRequest       a value is wrong; `violations` says which and why
    ├── MessageTooLarge      the request or the reply does not fit into one message; send less at a time
    ├── ModelNotFound        no such model or version
    ├── UnsupportedByModel   the value is fine, this model cannot do it
    ├── ServerBusy           try again; `retry_after` says when
    ├── NotServing           loading or draining; `retry_after` says when
    ├── DeadlinePassed       no answer in the time that the call had
    ├── CallCancelled        this side gave up
    ├── UnreadableReply      the reply contradicts itself
    └── ServerFault          the server's fault
"""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """A field of the request, for example `decoding.beam_size`, and what is wrong with it."""

    field: str
    description: str


class RegardCallError(Exception):
    """Base of all errors of a call; also the class of a status that none of the others is for.

    Args:
        message: one sentence for people.
        code: name of the gRPC status, for example `INTERNAL`; empty if the call never got that far.
        retry_after: seconds after which the server says that trying again makes sense.
        violations: what is wrong with the request, field by field.
        reason: upper-case identifier for programs, for example `NO_ATTENTION`.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        retry_after: float | None = None,
        violations: tuple[Violation, ...] = (),
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_after = retry_after
        self.violations = violations
        self.reason = reason


class CannotConnect(RegardCallError):
    """Nobody listens at the address."""


class WrongServer(RegardCallError):
    """The server does not know the method that was called."""


class InvalidRequest(RegardCallError):
    """A value in the request is wrong."""


class MessageTooLarge(RegardCallError):
    """The request or the reply does not fit into one message."""


class ModelNotFound(RegardCallError):
    """The server holds no such model or version."""


class UnsupportedByModel(RegardCallError):
    """This model does not have what the request asks for."""


class ServerBusy(RegardCallError):
    """Too much work is waiting there."""


class NotServing(RegardCallError):
    """The server or the model is loading or draining."""


class DeadlinePassed(RegardCallError):
    """There was no answer in the time that the call had."""


class CallCancelled(RegardCallError):
    """The call was cancelled on this side."""


class UnreadableReply(RegardCallError):
    """The reply contradicts itself, for example a matrix whose bytes do not match its shape."""


class ServerFault(RegardCallError):
    """Something failed in the server; its log says what."""

"""A call as its service sees it: the caller's context, bytes held, figures for log and metrics, and its reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message

from regard.server.byte_budget import Reservation
from regard.server.request import CallContext


@dataclass(slots=True, kw_only=True)
class Call:
    """One call in progress, and what its service records about it for log and metrics.

    Attributes:
        context: request id, trace and deadline of the caller.
        reservation: bytes that the call holds until its reply is sent.
        model: name of the model that answers. It becomes a metrics label, so it is always one that this server knows.
        version: of the model.
        segments: submitted to the engine.
        source_tokens, target_tokens: read and written.
    """

    context: CallContext
    reservation: Reservation
    model: str = ""
    version: str = ""
    segments: int = 0
    source_tokens: int = 0
    target_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReply:
    """A reply whose content is complete but not yet serialised.

    Attributes:
        write: builds the message.
        small: whether building it is quicker than handing it to a thread.
    """

    write: Callable[[], Message]
    small: bool

"""A call as its service sees it: who asks, what it has reserved, what to tell log and metrics, and its reply to be.

Does not know bytes on the wire, gRPC or any method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message

from regard.server.byte_budget import Reservation
from regard.server.request import CallContext


@dataclass(slots=True, kw_only=True)
class Call:
    """One call in progress, and what its service tells of it for log and metrics.

    Attributes:
        context: who asks.
        reservation: bytes that the call holds until its reply is gone.
        model: name of the model that answers; a name that this server knows, for it becomes a label.
        version: of the model.
        segments: asked of the engine.
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
    """A reply that is ready to be written.

    Attributes:
        write: makes the reply.
        small: whether that takes no time worth a thread.
    """

    write: Callable[[], Message]
    small: bool

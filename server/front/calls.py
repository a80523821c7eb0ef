"""Runs one unary call: request bytes in, reply bytes or a status out, and one line in the access log either way.

Requests are parsed here rather than by gRPC, which answers malformed bytes with INTERNAL before any handler runs, and
parses large requests in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message

from regard.server import logs
from regard.server.byte_budget import ByteBudget
from regard.server.errors import AnswerTooLarge, DeadlinePassed, EngineFault, InvalidRequest, RegardError
from regard.server.front.gate import Gate
from regard.server.front.refusal import refusal_of
from regard.server.metrics import Metrics
from regard.server.offload import Offload
from regard.server.request import CallContext
from regard.server.services.call import Call, PendingReply
from regard.server.settings import ServerSettings

Services = TypeVar("Services")
Request = TypeVar("Request", bound=Message)

REQUEST_ID = "x-request-id"
TRACE = "traceparent"

# The engine ends a call at its deadline; this many seconds later the call ends even if the engine is stuck.
_PATIENCE = 0.5
# Up to this size parsing a request takes less than handing it to a thread.
_SMALL_BYTES = 256 * 1024
# Unknown fields of more bytes are not named one by one.
_MOST_UNKNOWN_BYTES = 4096
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

_access = logging.getLogger("regard.access")
_faults = logging.getLogger("regard.faults")

GrpcContext = grpc.aio.ServicerContext[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls(Generic[Services]):
    """Runs all calls of one server. Use it in the event loop only.

    Attributes:
        settings: limits and defaults.
        gate: admits calls to the services.
        metrics: counts the calls.
        offload: parses and writes large messages.
        budget: bytes that calls may hold.
        clock: monotonic seconds.
    """

    settings: ServerSettings
    gate: Gate[Services]
    metrics: Metrics
    offload: Offload
    budget: ByteBudget
    clock: Callable[[], float] = time.monotonic

    def method(
        self, name: str, request: type[Request], answer: Callable[[Services, Request, Call], Awaitable[PendingReply]]
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return the gRPC handler of one method.

        Args:
            name: full, as in `regard.v1.TranslationService/Translate`.
            request: its message class.
            answer: calls the service; may raise any RegardError.
        """

        async def run(raw: bytes, context: GrpcContext) -> bytes:
            call = Call(context=self._read_context(context), reservation=self.budget.open())
            # Not at the end of this function: with a slow reader the reply stays in memory for longer.
            # The type stub asks for a class of its own; gRPC takes any function.
            context.add_done_callback(cast("Any", lambda done: call.reservation.close()))  # pyright: ignore[reportUnknownLambdaType]
            started = self.clock()
            context.set_trailing_metadata(((REQUEST_ID, call.context.request_id),))
            try:
                with self.gate.enter() as services:
                    reply = await self._answer(raw, request, call, lambda message: answer(services, message, call))
            except asyncio.CancelledError:
                expired = context.time_remaining() == 0
                code = grpc.StatusCode.DEADLINE_EXCEEDED if expired else grpc.StatusCode.CANCELLED
                self._record(name, call, code, self.clock() - started)
                raise
            except RegardError as caught:
                error = caught
            except Exception as caught:
                error = self._fault(caught, name, call)
            else:
                self._record(name, call, grpc.StatusCode.OK, self.clock() - started)
                return reply
            refusal = refusal_of(error)
            self._record(name, call, refusal.code, self.clock() - started, error)
            await context.abort(
                refusal.code, refusal.message, (*refusal.trailers, (REQUEST_ID, call.context.request_id))
            )
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(run)

    async def _answer(
        self, raw: bytes, request: type[Request], call: Call, answer: Callable[[Request], Awaitable[PendingReply]]
    ) -> bytes:
        scope = asyncio.timeout(call.context.deadline + _PATIENCE - self.clock())
        try:
            async with scope:
                call.reservation.add(len(raw))
                # No reference to the message is kept here, so that a service can free it.
                pending = await answer(
                    await self.offload.run(lambda: _parse(raw, request), small=len(raw) <= _SMALL_BYTES)
                )
                reply = await self.offload.run(lambda: self._write(pending), small=pending.small)
                call.reservation.add(len(reply))
                return reply
        except TimeoutError:
            if scope.expired():
                raise DeadlinePassed("decode") from None
            raise

    def _write(self, pending: PendingReply) -> bytes:
        raw = pending.write().SerializeToString()
        limit = self.settings.limits.max_message_bytes
        if len(raw) > limit:
            raise AnswerTooLarge(
                f"the reply would be {len(raw)} bytes; the limit is {limit}. Send fewer texts or pictures, or ask "
                "for less attention: a reduction, top_k, or the encoding FLOAT16 or UINT8"
            )
        return raw

    def _read_context(self, context: GrpcContext) -> CallContext:
        """Read request id, trace and deadline from the call; malformed ids are replaced, not refused."""
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        identity = metadata.get(REQUEST_ID, "")
        trace = metadata.get(TRACE, "")
        # The stub says otherwise, but this is None if the caller set no deadline.
        remaining = cast("float | None", context.time_remaining())
        return CallContext(
            request_id=identity if _REQUEST_ID.fullmatch(identity) else uuid.uuid4().hex,
            trace=trace if _TRACE.fullmatch(trace) else "",
            deadline=self.clock() + (self.settings.default_deadline if remaining is None else remaining),
        )

    def _fault(self, error: Exception, name: str, call: Call) -> EngineFault:
        """Log the traceback under an id, which is all that the caller gets."""
        fault = EngineFault(uuid.uuid4().hex[:12])
        fields = {"fault_id": fault.fault_id, "request_id": call.context.request_id, "method": name}
        logs.write(_faults, logging.ERROR, "unexpected exception", fields, error)
        return fault

    def _record(
        self, name: str, call: Call, code: grpc.StatusCode, seconds: float, error: RegardError | None = None
    ) -> None:
        self.metrics.call(method=name, model=call.model, code=code.name, seconds=seconds)
        fields: dict[str, logs.Value] = {
            "request_id": call.context.request_id,
            "method": name,
            "model": f"{call.model}/{call.version}" if call.model else "",
            "code": code.name,
            "seconds": round(seconds, 6),
            "segments": call.segments,
            "source_tokens": call.source_tokens,
            "target_tokens": call.target_tokens,
        }
        if call.context.trace:
            fields["trace_parent"] = call.context.trace
        if error is not None:
            fields["error"] = type(error).__name__
        if isinstance(error, InvalidRequest):
            fields["field"] = error.field
        logs.write(_access, logging.INFO, "call", fields)


def _parse(raw: bytes, request: type[Request]) -> Request:
    """Parse a request, whose unknown fields services refuse by name where they are few.

    Millions of them would become as many Python objects there, in the event loop: so many are refused here, by their
    bytes, at the speed of protobuf itself.
    """
    try:
        message = request.FromString(raw)
        if len(raw) <= _MOST_UNKNOWN_BYTES:
            return message
        whole = message.ByteSize()
        message.DiscardUnknownFields()
        unknown = whole - message.ByteSize()
        if unknown > _MOST_UNKNOWN_BYTES:
            raise InvalidRequest("request", f"has {unknown} bytes of fields that this server does not know")
        return request.FromString(raw) if unknown else message
    except DecodeError:
        raise InvalidRequest(
            "request", f"is not a valid {request.DESCRIPTOR.full_name}: malformed protobuf, or text that is not UTF-8"
        ) from None

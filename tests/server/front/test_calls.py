"""One call over a real connection: what gRPC sees when the service behind it answers, refuses, breaks or hangs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import grpc
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from tests.server.serving import PATIENCE, eventually

from regard.server import logs
from regard.server.byte_budget import ByteBudget
from regard.server.errors import DeadlinePassed, InvalidRequest
from regard.server.front.calls import Calls
from regard.server.front.gate import Gate
from regard.server.metrics import Metrics
from regard.server.offload import Offload
from regard.server.services.call import Call, PendingReply
from regard.server.settings import Limits, ServerSettings
from regard.v1 import translation_pb2

METHOD = "test.Service/Answer"
SETTINGS = ServerSettings(limits=Limits(max_message_bytes=1 << 20))

Answer = Callable[[translation_pb2.TranslateRequest, Call], Awaitable[PendingReply]]
Ask = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]


def reply(text: str) -> PendingReply:
    result = translation_pb2.TranslationResult(text=text)
    return PendingReply(write=lambda: translation_pb2.TranslateResponse(results=[result]), small=True)


async def echo(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
    call.model = "toy"
    return reply("".join(request.texts))


@asynccontextmanager
async def serving(answer: Answer, settings: ServerSettings = SETTINGS) -> AsyncGenerator[tuple[Ask, Calls[Answer]]]:
    gate = Gate[Answer](max_concurrent_calls=settings.max_concurrent_calls)
    gate.open(answer)
    calls = Calls(
        settings=settings, gate=gate, metrics=Metrics(), offload=Offload(), budget=ByteBudget(settings.max_bytes_held)
    )
    method = calls.method(
        METHOD, translation_pb2.TranslateRequest, lambda services, request, call: services(request, call)
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", {"Answer": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.unary_unary(f"/{METHOD}"), calls
    await server.stop(0)
    calls.offload.close()


def ask(
    answer: Answer,
    raw: bytes = b"",
    *,
    settings: ServerSettings = SETTINGS,
    timeout: float | None = PATIENCE,
    metadata: tuple[tuple[str, str], ...] = (),
) -> tuple[grpc.StatusCode, str, dict[str, str | bytes], bytes]:
    """Code, message, trailers, reply of one call."""

    async def run() -> tuple[grpc.StatusCode, str, dict[str, str | bytes], bytes]:
        async with asyncio.timeout(2 * PATIENCE), serving(answer, settings) as (method, _):
            call = method(raw, timeout=timeout, metadata=metadata)
            try:
                body = await call
            except grpc.aio.AioRpcError as error:
                return error.code(), error.details() or "", dict(error.trailing_metadata() or ()), b""
            return await call.code(), "", dict(await call.trailing_metadata()), body

    return asyncio.run(run())


def test_a_reply_arrives() -> None:
    request = translation_pb2.TranslateRequest(texts=["a", "é"])
    code, _, _, body = ask(echo, request.SerializeToString())
    assert code is grpc.StatusCode.OK
    assert translation_pb2.TranslateResponse.FromString(body).results[0].text == "aé"


def test_a_message_of_unknown_fields_is_refused_without_making_an_object_of_each() -> None:
    reached: list[str] = []

    async def note(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        reached.append("service")
        return reply("")

    code, message, _, _ = ask(note, b"\x98\x06\x00" * 100_000)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert message == "request: has 300000 bytes of fields that this server does not know"
    assert not reached


def test_a_few_unknown_fields_of_a_large_message_reach_the_service_that_names_them() -> None:
    async def name(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        return reply(str(len(UnknownFieldSet(request))))

    whole = translation_pb2.TranslateRequest(texts=["a" * 10_000]).SerializeToString()
    _, _, _, body = ask(name, whole + b"\x98\x06\x00" * 2)
    assert translation_pb2.TranslateResponse.FromString(body).results[0].text == "2"


@pytest.mark.parametrize(
    "raw",
    [
        b"\x1a\x03\xed\xa0\x80",  # texts: a lone surrogate
        b"\x1a\x02\xc3\x28",  # texts: half a character
        b"\x0a\x01\xff",  # model: not UTF-8
        b"\x1a\xff",  # a length beyond the end
        b"\xff\xff\xff\xff",  # no tag at all
    ],
)
def test_bytes_that_are_no_request_are_the_callers_fault(raw: bytes) -> None:
    code, message, _, _ = ask(echo, raw)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "malformed protobuf, or text that is not UTF-8" in message


def test_a_domain_error_becomes_its_status_with_details() -> None:
    async def refuse(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        raise InvalidRequest("texts", "at most 2, not 3")

    code, message, trailers, _ = ask(refuse)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert message == "texts: at most 2, not 3"
    assert b"BadRequest" in trailers["grpc-status-details-bin"]  # pyright: ignore[reportOperatorIssue] - bytes by name


def test_an_unexpected_exception_gives_an_id_to_the_caller_and_the_trace_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        raise ZeroDivisionError("secret")

    code, message, trailers, _ = ask(fail)
    assert code is grpc.StatusCode.INTERNAL
    found = re.fullmatch(r"internal error ([0-9a-f]{12})", message)
    assert found is not None
    assert b"secret" not in b"".join(str(value).encode() for value in trailers.values())
    (record,) = [record for record in caplog.records if record.name == "regard.faults"]
    line = logs.LineFormatter(as_json=True, messages=False).format(record)
    assert json.loads(line)["fault_id"] == found[1]
    assert "ZeroDivisionError" in line
    assert "in fail" in line
    assert "secret" not in json.loads(line)["trace"].replace('raise ZeroDivisionError("secret")', "")


def test_an_exception_while_the_reply_is_written_is_contained_too() -> None:
    def write() -> translation_pb2.TranslateResponse:
        raise ZeroDivisionError

    async def draft(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        return PendingReply(write=write, small=False)

    assert ask(draft)[0] is grpc.StatusCode.INTERNAL


def test_a_reply_beyond_the_limit_is_refused_with_a_sentence() -> None:
    async def big(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        return reply("x" * (1 << 20))

    code, message, _, _ = ask(big)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert re.match(r"the reply would be \d+ bytes; the limit is 1048576\. ", message)


@pytest.mark.parametrize(
    ("sent", "kept"), [("job-17.b:c_D", True), ("", False), ("x" * 65, False), ("a b", False), ("a/b", False)]
)
def test_a_sane_request_id_is_kept_and_any_other_replaced(sent: str, kept: bool) -> None:
    seen: list[str] = []

    async def look(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        seen.append(call.context.request_id)
        return reply("")

    _, _, trailers, _ = ask(look, metadata=(("x-request-id", sent),))
    assert [trailers["x-request-id"]] == seen
    assert (seen[0] == sent) is kept
    assert re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", seen[0])


def test_errors_carry_the_request_id_too() -> None:
    _, _, trailers, _ = ask(echo, b"\xff", metadata=(("x-request-id", "mine"),))
    assert trailers["x-request-id"] == "mine"


def test_the_trace_of_the_caller_travels_and_nonsense_does_not() -> None:
    seen: list[str] = []

    async def look(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        seen.append(call.context.trace)
        return reply("")

    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    ask(look, metadata=(("traceparent", good),))
    ask(look, metadata=(("traceparent", good + "0"),))
    assert seen == [good, ""]


@pytest.mark.parametrize(("timeout", "expected"), [(1000.0, 1000.0), (None, 2000.0)])
def test_a_call_has_the_callers_deadline_or_the_servers(timeout: float | None, expected: float) -> None:
    left: list[float] = []

    async def look(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        left.append(call.context.deadline - time.monotonic())
        return reply("")

    ask(look, settings=replace(SETTINGS, default_deadline=2000.0), timeout=timeout)
    assert left[0] == pytest.approx(expected, abs=300)


def test_a_service_that_hangs_is_left_soon_after_the_deadline_of_the_server() -> None:
    async def hang(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        await asyncio.sleep(3600)
        return reply("")

    code, _, _, _ = ask(hang, settings=replace(SETTINGS, default_deadline=0.05), timeout=None)
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_timeout_that_is_not_the_deadline_is_a_fault() -> None:
    async def fail(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        raise TimeoutError

    assert ask(fail)[0] is grpc.StatusCode.INTERNAL


def test_a_caller_that_leaves_cancels_the_service_and_the_log_says_which_way(caplog: pytest.LogCaptureFixture) -> None:
    hold = 0.0
    entered: list[bool] = []
    cancelled: list[bool] = []

    async def wait(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        entered.append(True)
        time.sleep(hold)  # noqa: ASYNC251 - so that it is the deadline that has passed, whoever notices first
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return reply("")

    async def run() -> None:
        nonlocal hold
        async with serving(wait) as (method, calls):
            leaving = method(b"")
            await eventually(lambda: entered)
            leaving.cancel()
            for patience in (0.1, 3.0, 30.0):
                hold = patience + 0.1
                with pytest.raises(grpc.aio.AioRpcError, match="DEADLINE_EXCEEDED"):
                    await method(b"", timeout=patience)
                if len(entered) > 1:  # On a slow machine the deadline may pass on the way.
                    break
            await asyncio.wait_for(calls.gate.idle(), PATIENCE)

    with caplog.at_level(logging.INFO, "regard.access"):
        asyncio.run(run())
    assert len(cancelled) == len(entered) == 2
    codes = [vars(record)["fields"]["code"] for record in caplog.records if record.name == "regard.access"]
    assert codes.count("CANCELLED") == 1
    assert set(codes) == {"CANCELLED", "DEADLINE_EXCEEDED"}


def test_calls_beyond_the_bound_are_refused_and_counted() -> None:
    async def run() -> None:
        entered, release = asyncio.Event(), asyncio.Event()

        async def wait(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
            entered.set()
            await release.wait()
            return reply("")

        async with serving(wait, replace(SETTINGS, max_concurrent_calls=1)) as (method, calls):
            first = asyncio.ensure_future(method(b""))
            await eventually(entered.is_set)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(b"")
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert ("grpc-retry-pushback-ms", "1000") in tuple(refused.value.trailing_metadata() or ())
            release.set()
            await first
            labels = {"method": METHOD, "model": "", "code": "RESOURCE_EXHAUSTED"}
            assert calls.metrics.registry.get_sample_value("regard_requests_total", labels) == 1

    asyncio.run(run())


def test_a_closed_gate_is_told_as_unavailable_with_a_time_to_come_back() -> None:
    async def run() -> None:
        async with serving(echo) as (method, calls):
            calls.gate.close("the server is draining")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(b"")
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert refused.value.details() == "the server is draining"
            assert "grpc-retry-pushback-ms" in dict(refused.value.trailing_metadata() or ())

    asyncio.run(run())


def test_work_that_is_not_small_does_not_hold_up_other_calls() -> None:
    begun, others_answered = threading.Event(), threading.Event()

    def write() -> translation_pb2.TranslateResponse:
        begun.set()
        assert others_answered.wait(PATIENCE)
        return translation_pb2.TranslateResponse()

    async def answer(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        return PendingReply(write=write, small=False) if request.model == "slow" else reply("")

    async def run() -> None:
        async with serving(answer) as (method, _):
            await method(b"")
            slow = asyncio.ensure_future(method(translation_pb2.TranslateRequest(model="slow").SerializeToString()))
            await eventually(begun.is_set)
            await method(b"")
            others_answered.set()
            await slow

    asyncio.run(run())


def test_one_access_line_tells_of_a_call_without_its_texts(caplog: pytest.LogCaptureFixture) -> None:
    request = translation_pb2.TranslateRequest(texts=["very private"])
    with caplog.at_level(logging.INFO, "regard.access"):
        ask(echo, request.SerializeToString(), metadata=(("x-request-id", "mine"),))
        ask(echo, b"\xff")
    good, bad = (vars(record)["fields"] for record in caplog.records if record.name == "regard.access")
    assert (good["request_id"], good["method"], good["code"]) == ("mine", METHOD, "OK")
    assert (bad["code"], bad["error"], bad["field"]) == ("INVALID_ARGUMENT", "InvalidRequest", "request")
    assert "private" not in repr([vars(record) for record in caplog.records])


def test_the_deadline_error_is_the_services_own_if_it_comes_first() -> None:
    async def late(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        raise DeadlinePassed("queue")

    code, message, _, _ = ask(late)
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert message == "the deadline passed in the queue"


@pytest.mark.parametrize("way", ["answer", "refusal", "fault", "departure"])
def test_a_call_holds_nothing_once_it_is_over(way: str) -> None:
    async def answer(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
        call.reservation.add(1000)
        if way == "departure":
            await asyncio.sleep(3600)
        if way == "refusal":
            raise InvalidRequest("texts", "no")
        if way == "fault":
            raise ZeroDivisionError
        return reply("x")

    async def run() -> None:
        async with serving(answer) as (method, calls):
            with suppress(grpc.aio.AioRpcError):
                await method(b"", timeout=0.2 if way == "departure" else PATIENCE)
            await eventually(lambda: calls.budget.held == 0)

    asyncio.run(run())


def test_a_request_that_finds_no_room_is_refused_and_later_ones_are_well() -> None:
    async def run() -> None:
        release = asyncio.Event()

        async def wait(request: translation_pb2.TranslateRequest, call: Call) -> PendingReply:
            if request.model == "wait":
                await release.wait()
            return reply("")

        small = replace(SETTINGS, max_bytes_held=4 << 20)
        async with serving(wait, small) as (method, calls):
            large = translation_pb2.TranslateRequest(model="wait", texts=["x" * 2_000_000]).SerializeToString()
            first = [asyncio.ensure_future(method(large)) for _ in range(2)]
            await eventually(lambda: calls.budget.held == 2 * len(large))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(large)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "grpc-retry-pushback-ms" in dict(refused.value.trailing_metadata() or ())
            release.set()
            await asyncio.gather(*first)
            await eventually(lambda: calls.budget.held == 0)
            await method(large)

    asyncio.run(run())

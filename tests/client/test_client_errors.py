"""Errors of calls say in words what happened and what to do."""

import socket
import threading
from collections.abc import Generator

import google.rpc.error_details_pb2 as error_details_pb2
import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from tests.client.fake_server import FakeServer, refuse, violation

from regard.client import (
    CallCancelled,
    CannotConnect,
    Client,
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
from regard.v1 import translation_pb2


def failing(
    fake_server: FakeServer, code: grpc.StatusCode, message: str, *details: Message, pushback: str = ""
) -> RegardCallError:
    """Return what a call raises that the server ends so."""

    def fail(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        refuse(context, code, message, *details, pushback=pushback)

    fake_server.translate = fail
    with Client(fake_server.address) as client, pytest.raises(RegardCallError) as caught:
        client.translate(["one"])
    return caught.value


@pytest.fixture
def closed_port() -> Generator[int]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound but not listening, so nobody else takes it
        yield bound.getsockname()[1]


def test_nobody_there_says_how_to_start_a_server(closed_port: int) -> None:
    with Client(f"127.0.0.1:{closed_port}") as client, pytest.raises(CannotConnect) as caught:
        client.translate(["one"])
    assert str(caught.value) == f"no server at 127.0.0.1:{closed_port}; start one with `regard serve`"


def test_a_name_that_does_not_exist_is_told_apart() -> None:
    with Client("no-such-host.invalid:1") as client, pytest.raises(RegardCallError) as caught:
        client.translate(["one"], timeout=3)
    assert "no-such-host.invalid:1" in str(caught.value)
    assert "regard serve" not in str(caught.value)


def test_violations_are_unpacked(fake_server: FakeServer) -> None:
    error = failing(
        fake_server, grpc.StatusCode.INVALID_ARGUMENT, "bad", violation("decoding.beam_size", "99 is above 16")
    )
    assert isinstance(error, InvalidRequest)
    assert error.violations == (Violation("decoding.beam_size", "99 is above 16"),)
    assert str(error) == "decoding.beam_size: 99 is above 16"


def test_a_busy_server_says_when_to_come_back(fake_server: FakeServer) -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=250_000_000))
    error = failing(fake_server, grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", retry, pushback="-1")
    assert isinstance(error, ServerBusy)
    assert error.retry_after == pytest.approx(0.25)
    assert str(error) == "the queue is full; try again in 0.25 s"


def test_an_answer_that_is_too_large_is_no_busy_server_and_not_asked_for_again(fake_server: FakeServer) -> None:
    error = failing(fake_server, grpc.StatusCode.RESOURCE_EXHAUSTED, "the reply would be 9 bytes", pushback="-1")
    assert isinstance(error, MessageTooLarge)
    assert "the reply would be 9 bytes" in str(error)
    assert len(fake_server.requests) == 1


def test_a_server_at_its_last_bound_is_busy_and_not_sent_too_much(fake_server: FakeServer) -> None:
    error = failing(fake_server, grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
    assert isinstance(error, ServerBusy)
    assert str(error) == "Concurrent RPC limit exceeded!"


def test_a_draining_server_is_not_an_absent_one(fake_server: FakeServer) -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=2))
    error = failing(fake_server, grpc.StatusCode.UNAVAILABLE, "draining", retry, pushback="-1")
    assert isinstance(error, NotServing)
    assert str(error) == "draining; try again in 2 s"


def test_what_a_model_cannot_do_has_a_reason_for_programs(fake_server: FakeServer) -> None:
    info = error_details_pb2.ErrorInfo(reason="NO_ATTENTION", domain="regard")
    error = failing(fake_server, grpc.StatusCode.FAILED_PRECONDITION, "it has no attention", info)
    assert isinstance(error, UnsupportedByModel)
    assert error.reason == "NO_ATTENTION"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.NOT_FOUND, ModelNotFound),
        (grpc.StatusCode.CANCELLED, CallCancelled),
        (grpc.StatusCode.INTERNAL, ServerFault),
        (grpc.StatusCode.UNKNOWN, ServerFault),
        (grpc.StatusCode.PERMISSION_DENIED, RegardCallError),
    ],
)
def test_every_status_has_its_error(
    fake_server: FakeServer, code: grpc.StatusCode, kind: type[RegardCallError]
) -> None:
    error = failing(fake_server, code, "because")
    assert type(error) is kind
    assert error.code == code.name
    assert "because" in str(error)


def test_details_of_unknown_types_do_not_matter(fake_server: FakeServer) -> None:
    error = failing(fake_server, grpc.StatusCode.NOT_FOUND, "no model", Duration(seconds=1))
    assert str(error) == "no model"


def test_broken_details_leave_the_status(fake_server: FakeServer) -> None:
    def fail(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff\xff"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "no model")

    fake_server.translate = fail
    with Client(fake_server.address) as client, pytest.raises(ModelNotFound, match="no model"):
        client.translate(["one"])


def test_a_deadline_says_how_long_the_call_had(fake_server: FakeServer) -> None:
    released = threading.Event()

    def wait(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        released.wait(120)
        return translation_pb2.TranslateResponse()

    fake_server.translate = wait
    try:
        with Client(fake_server.address) as client, pytest.raises(DeadlinePassed) as caught:
            client.translate(["one"], timeout=0.1)
    finally:
        released.set()
    assert str(caught.value) == f"no answer from {fake_server.address} within 0.1 s"


def test_another_kind_of_server_is_recognised(fake_server: FakeServer) -> None:
    def fail(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

    fake_server.translate = fail
    with Client(fake_server.address) as client, pytest.raises(WrongServer, match="does not offer this"):
        client.translate(["one"])


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("localhost", "HOST:PORT"),
        ("http://localhost:50051", "without http://"),
        ("localhost:0", "HOST:PORT"),
        ("localhost:70000", "HOST:PORT"),
        ("localhost:http", "HOST:PORT"),
        (":50051", "HOST:PORT"),
        ("::1:50051", "in brackets"),
        ("", "HOST:PORT"),
    ],
)
def test_an_address_that_is_none_is_refused_at_once(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Client(address)

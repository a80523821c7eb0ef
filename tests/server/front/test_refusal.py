"""What each domain error tells a caller."""

from __future__ import annotations

from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from regard.server.errors import (
    AnswerTooLarge,
    CallCancelled,
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
from regard.server.front.refusal import Refusal, refusal_of
from regard.server.services.status import status_number

Detail = TypeVar("Detail", bound=Message)


def status_of(refusal: Refusal) -> status_pb2.Status:
    (raw,) = [value for key, value in refusal.trailers if key == "grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    return status_pb2.Status.FromString(raw)


def detail_of(refusal: Refusal, kind: type[Detail]) -> Detail:
    (packed,) = status_of(refusal).details
    detail = kind()
    assert packed.Unpack(detail)
    return detail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequest("texts", "too many"), grpc.StatusCode.INVALID_ARGUMENT),
        (ModelNotFound("x", "", ("toy",)), grpc.StatusCode.NOT_FOUND),
        (UnsupportedByModel("NO_ATTENTION", "has none"), grpc.StatusCode.FAILED_PRECONDITION),
        (QueueFull("full", 1.0), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (TooManyCalls("many", 1.0), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (AnswerTooLarge("large"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (NotServing("loading", 1.0), grpc.StatusCode.UNAVAILABLE),
        (DeadlinePassed("queue"), grpc.StatusCode.DEADLINE_EXCEEDED),
        (CallCancelled("gone"), grpc.StatusCode.CANCELLED),
        (EngineFault("0f"), grpc.StatusCode.INTERNAL),
        (RegardError("an error that the table forgot"), grpc.StatusCode.INTERNAL),
    ],
)
def test_every_error_has_its_status(error: RegardError, code: grpc.StatusCode) -> None:
    refusal = refusal_of(error)
    assert refusal.code is code
    assert status_of(refusal).code == code_pb2.Code.Value(code.name) == status_number(error)
    assert status_of(refusal).message == refusal.message == str(error)


def test_a_wrong_value_is_told_by_field() -> None:
    refusal = refusal_of(InvalidRequest("decoding.beam_size", "must be between 1 and 16, got 99"))
    (violation,) = detail_of(refusal, error_details_pb2.BadRequest).field_violations
    assert (violation.field, violation.description) == ("decoding.beam_size", "must be between 1 and 16, got 99")


def test_a_missing_model_is_told_as_a_resource() -> None:
    info = detail_of(refusal_of(ModelNotFound("x", "3", ("toy",))), error_details_pb2.ResourceInfo)
    assert (info.resource_type, info.resource_name) == ("regard.v1.Model", "x/3")


def test_what_a_model_lacks_is_told_by_a_reason() -> None:
    info = detail_of(refusal_of(UnsupportedByModel("NO_ATTENTION", "has none")), error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("NO_ATTENTION", "regard.v1")


@pytest.mark.parametrize("error", [QueueFull("full", 1.2504), TooManyCalls("many", 1.2504), NotServing("x", 1.2504)])
def test_lack_of_room_says_when_to_come_back_in_both_ways(error: RegardError) -> None:
    refusal = refusal_of(error)
    assert detail_of(refusal, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() == 1251
    assert ("grpc-retry-pushback-ms", "1251") in refusal.trailers


@pytest.mark.parametrize("error", [InvalidRequest("texts", "x"), DeadlinePassed("queue")])
def test_what_will_fail_again_does_not_ask_to_come_back(error: RegardError) -> None:
    assert "grpc-retry-pushback-ms" not in dict(refusal_of(error).trailers)


def test_an_answer_that_is_too_large_asks_clients_not_to_try_again() -> None:
    refusal = refusal_of(AnswerTooLarge("large"))
    assert ("grpc-retry-pushback-ms", "-1") in refusal.trailers
    assert not status_of(refusal).details


@pytest.mark.parametrize("letter", ["x", "ü", "\U0001f600", "\0"])
def test_a_status_stays_small_whatever_a_caller_sent(letter: str) -> None:
    long = letter * 100_000
    for error in (InvalidRequest(long, long), ModelNotFound(long, long, (long,)), NotServing(long, 1.0)):
        refusal = refusal_of(error)
        assert sum(len(key) + len(value) for key, value in refusal.trailers) <= 4200
        assert len(refusal.message) <= 800

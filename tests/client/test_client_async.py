"""The client for asyncio answers like the one for threads."""

import asyncio
import time

import grpc
import pytest

from client import AsyncClient, Client, DeadlinePassed, ModelNotFound, NotServing
from regard.v1 import translation_pb2
from tests.client.fake_server import FakeServer


def test_both_clients_give_the_same_answers(fake_server: FakeServer) -> None:
    async def ask() -> object:
        async with AsyncClient(fake_server.address) as client:
            await client.wait_ready(timeout=5)
            return (
                await client.translate(["one", "!two", ""]),
                await client.score([("one", "uno")]),
                await client.models(),
                await client.model(),
            )

    with Client(fake_server.address) as client:
        expected = (
            client.translate(["one", "!two", ""]),
            client.score([("one", "uno")]),
            client.models(),
            client.model(),
        )
    assert asyncio.run(ask()) == expected


def test_calls_run_side_by_side(fake_server: FakeServer) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(fake_server.address) as client:
            answers = await asyncio.gather(*(client.translate([f"text {index}"]) for index in range(10)))
            return [answer[0].text for answer in answers]

    assert asyncio.run(ask()) == [f"TEXT {index}" for index in range(10)]


def test_errors_are_the_same(fake_server: FakeServer) -> None:
    async def ask() -> None:
        async with AsyncClient(fake_server.address) as client:
            await client.model("other")

    with pytest.raises(ModelNotFound, match="no model 'other'"):
        asyncio.run(ask())


def test_a_deadline_holds(fake_server: FakeServer) -> None:
    def sleep(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        time.sleep(0.5)
        return translation_pb2.TranslateResponse()

    fake_server.translate = sleep

    async def ask() -> None:
        async with AsyncClient(fake_server.address) as client:
            await client.translate(["one"], timeout=0.1)

    with pytest.raises(DeadlinePassed):
        asyncio.run(ask())


def test_waiting_for_a_server_that_does_not_serve_ends(fake_server: FakeServer) -> None:
    fake_server.health = b"\x08\x02"

    async def wait() -> None:
        async with AsyncClient(fake_server.address) as client:
            await client.wait_ready(timeout=0.2)

    with pytest.raises(NotServing):
        asyncio.run(wait())

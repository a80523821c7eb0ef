"""The client for asyncio answers like the one for threads."""

import asyncio
import threading

import grpc
import pytest
from tests.client.fake_server import FakeServer

from regard.client import AsyncClient, Client, DeadlinePassed, ModelNotFound, NotServing
from regard.v1 import translation_pb2


def test_both_clients_give_the_same_answers(fake_server: FakeServer) -> None:
    async def ask() -> object:
        async with AsyncClient(fake_server.address) as client:
            await client.wait_ready(timeout=120)
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
    released = threading.Event()

    def wait(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        released.wait(120)
        return translation_pb2.TranslateResponse()

    fake_server.translate = wait

    async def ask() -> None:
        async with AsyncClient(fake_server.address) as client:
            await client.translate(["one"], timeout=0.1)

    try:
        with pytest.raises(DeadlinePassed):
            asyncio.run(ask())
    finally:
        released.set()


def test_waiting_for_a_server_that_does_not_serve_ends(fake_server: FakeServer) -> None:
    fake_server.health = b"\x08\x02"

    async def wait(patience: float) -> None:
        async with AsyncClient(fake_server.address) as client:
            with pytest.raises((NotServing, DeadlinePassed)) as caught:
                await client.wait_ready(timeout=patience)
            # A machine that is held up leaves no time for the last question.
            if isinstance(caught.value, DeadlinePassed) and patience < 20:
                await wait(10 * patience)
            else:
                assert isinstance(caught.value, NotServing)

    asyncio.run(wait(0.2))

"""Who is told what about the health of the server, and when."""

from __future__ import annotations

import asyncio
from typing import cast

import grpc
import pytest
from grpc_health.v1 import health_pb2
from tests.server.serving import eventually

from regard.server.front.health import LIVENESS, NOT_SERVING, SERVICE_UNKNOWN, SERVING, Health

SERVICE = "regard.v1.TranslationService"


def test_nothing_is_ready_at_first_but_the_process_lives() -> None:
    async def run() -> None:
        health = Health([SERVICE])
        assert [health.status(name) for name in ("", SERVICE, LIVENESS)] == [NOT_SERVING, NOT_SERVING, SERVING]

    asyncio.run(run())


def test_readiness_and_liveness_are_two_things() -> None:
    async def run() -> None:
        health = Health([SERVICE])
        health.set_ready(True)
        assert [health.status(name) for name in ("", SERVICE, LIVENESS)] == [SERVING, SERVING, SERVING]
        health.set_ready(False)
        assert [health.status(name) for name in ("", SERVICE, LIVENESS)] == [NOT_SERVING, NOT_SERVING, SERVING]
        health.set_ready(True)
        health.set_alive(False)
        assert [health.status(name) for name in ("", SERVICE, LIVENESS)] == [NOT_SERVING] * 3

    asyncio.run(run())


def test_check_and_watch_know_the_same_and_watch_is_told_of_every_change() -> None:
    async def run() -> None:
        health = Health([SERVICE])
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((health.handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            watch = channel.unary_stream(
                "/grpc.health.v1.Health/Watch",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            seen: list[int] = []

            async def follow() -> None:
                async for response in watch(health_pb2.HealthCheckRequest(service=SERVICE)):
                    seen.append(response.status)  # noqa: PERF401 - the test reads while it grows

            following = asyncio.create_task(follow())
            for ready in (False, True, False):
                health.set_ready(ready)
                expected = SERVING if ready else NOT_SERVING
                await eventually(lambda expected=expected: seen and seen[-1] == expected)
                assert (await check(health_pb2.HealthCheckRequest(service=SERVICE))).status == expected
            assert seen == [NOT_SERVING, SERVING, NOT_SERVING]

            unknown = watch(health_pb2.HealthCheckRequest(service="unheard-of"))
            first = cast("health_pb2.HealthCheckResponse", await unknown.read())
            assert first.status == SERVICE_UNKNOWN
            with pytest.raises(grpc.aio.AioRpcError, match="NOT_FOUND"):
                await check(health_pb2.HealthCheckRequest(service="unheard-of"))
            following.cancel()
        await server.stop(0)

    asyncio.run(run())


def test_watchers_beyond_the_bound_are_refused_in_words_and_checks_are_not() -> None:
    async def run() -> None:
        health = Health([SERVICE], most_watchers=2)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((health.handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        request = health_pb2.HealthCheckRequest().SerializeToString()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
                "/grpc.health.v1.Health/Watch"
            )
            check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/grpc.health.v1.Health/Check")
            # One after the other: streams that are opened together may arrive in any order.
            first = watch(request)
            await first.read()
            second = watch(request)
            await second.read()
            third = watch(request)
            with pytest.raises(grpc.aio.AioRpcError, match="2 callers watch already") as caught:
                await third.read()
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await check(request)
            first.cancel()

            async def another_may() -> bool:
                call = watch(request)
                try:
                    await call.read()
                except grpc.aio.AioRpcError:
                    return False
                call.cancel()
                return True

            async with asyncio.timeout(10):
                while not await another_may():  # noqa: ASYNC110 - nothing tells when the server has noticed
                    await asyncio.sleep(0.01)
            second.cancel()
        await server.stop(0)

    asyncio.run(run())

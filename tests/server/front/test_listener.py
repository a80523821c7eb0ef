"""What the gRPC server itself does with callers, before any of our code sees a call."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from regard.server.front.listener import bind, create_listener
from regard.server.settings import ServerSettings

CONNECTIONS = 4
CALLS = 400


async def _echo(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    return request


def _burst(port: int, number: int) -> list[grpc.StatusCode]:
    """Send many calls over a connection of their own, all at once, and return how they ended."""
    # A number of its own keeps gRPC from sharing the connection of another channel.
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("regard.test", number)]) as channel:
        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/test.Service/Echo")
        calls = [ask.future(b"", timeout=60) for _ in range(CALLS)]
        return [call.code() for call in calls]


def test_a_burst_on_a_busy_event_loop_is_answered_and_not_cancelled() -> None:
    handlers = grpc.method_handlers_generic_handler(
        "test.Service", {"Echo": grpc.unary_unary_rpc_method_handler(_echo)}
    )

    async def run() -> list[grpc.StatusCode]:
        server = create_listener(ServerSettings(reflection=False), (handlers,), ())
        port = bind(server, "127.0.0.1:0")
        await server.start()
        with ThreadPoolExecutor(CONNECTIONS) as callers:
            bursts = [callers.submit(_burst, port, number) for number in range(CONNECTIONS)]
            # Without a break, so that calls pile up before the server accepts them.
            time.sleep(1)  # noqa: ASYNC251 - that the loop stands still is the test
            ended = [await asyncio.wrap_future(burst) for burst in bursts]
        await server.stop(0)
        return [code for codes in ended for code in codes]

    codes = asyncio.run(run())
    assert codes == [grpc.StatusCode.OK] * (CONNECTIONS * CALLS)
    assert threading.active_count() < 50

"""Creates the gRPC server, with channel options for long calls, large messages and keepalive pings."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from grpc_reflection.v1alpha import reflection

from regard.server.errors import SettingsError
from regard.server.settings import ServerSettings

# gRPC closes connections that ping more often than every five minutes. Our client pings every 30 s, others as they
# like, and a busy server reads pings late and in bunches, so counting them would hit well-behaved callers.
_PING_STRIKES = 0
# A caller whose machine has vanished is noticed after the sum of these, and its rows are freed.
_PING_EVERY_MS = 30_000
_PING_TIMEOUT_MS = 20_000
# gRPC's own limit refuses every method alike, health checks too, without a word of when to come back, so it is only a
# last bound: far above that of the gate, of health watchers, and of what a few connections can open.
_SPARE_RPCS = 16 * 1024
# Calls of one connection at a time; others of it wait on the caller's side.
_STREAMS_A_CONNECTION = 512
# Requests that gRPC holds while the event loop is busy, in a burst. Its default, 1000, cancels those beyond it, with no
# message that anyone could act on; the gate refuses better.
_PENDING_REQUESTS = 16 * 1024


def create_listener(
    settings: ServerSettings, handlers: Sequence[grpc.GenericRpcHandler], services: Sequence[str]
) -> grpc.aio.Server:
    """Create a server that is not bound to a port yet.

    Args:
        settings: of the server.
        handlers: of its methods.
        services: their full names, for reflection.
    """
    size = settings.limits.max_message_bytes
    options: list[tuple[str, int]] = [
        ("grpc.so_reuseport", 0),  # A second server on the port must fail, not share it silently.
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", size),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_concurrent_streams", _STREAMS_A_CONNECTION),
        ("grpc.server.max_pending_requests", _PENDING_REQUESTS),
        ("grpc.server.max_pending_requests_hard_limit", 2 * _PENDING_REQUESTS),
        ("grpc.http2.max_ping_strikes", _PING_STRIKES),
        ("grpc.keepalive_time_ms", _PING_EVERY_MS),
        ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
    ]
    if settings.max_connection_age:
        options.append(("grpc.max_connection_age_ms", round(settings.max_connection_age * 1000)))
        options.append(("grpc.max_connection_age_grace_ms", round(settings.default_deadline * 1000)))
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=settings.max_concurrent_calls + _SPARE_RPCS)
    server.add_generic_rpc_handlers(handlers)
    if settings.reflection:
        reflection.enable_server_reflection((*services, reflection.SERVICE_NAME), server)
    return server


def bind(server: grpc.aio.Server, address: str) -> int:
    """Bind to an address and return the port.

    Raises:
        SettingsError: the address is not available; the message names the flag.
    """
    try:
        return server.add_insecure_port(address)
    except RuntimeError as error:
        raise SettingsError(
            f"--address: cannot listen on {address}: it is in use, not of this machine, or not permitted"
        ) from error

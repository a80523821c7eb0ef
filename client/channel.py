"""Opens channels with the defaults that every caller should have: message limits, retries, keepalive, balancing.

Knows nothing of services or messages.
"""

from __future__ import annotations

import json
from typing import Any

import grpc
from grpc import aio

DEFAULT_ADDRESS = "127.0.0.1:50051"

# Attention of a long text is far larger than the 4 MiB that gRPC allows by itself.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

SERVICE_CONFIG: dict[str, Any] = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        # A health check asks what is the case now, so it is never retried behind the caller's back.
        {"name": [{"service": "grpc.health.v1.Health"}]},
        {
            "name": [{}],
            # A server that sends `grpc-retry-pushback-ms` decides the pause itself; gRPC honours that.
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            },
        },
    ],
}

_LOOPBACK = ("localhost:", "127.", "[::1]:")


def check_address(address: str) -> str:
    """Return the address if it is HOST:PORT, [IPV6]:PORT or a gRPC target such as unix:/path.

    Raises:
        ValueError: what is wrong with it. Left to itself gRPC would take a missing port for 443.
    """
    if address.startswith(("http://", "https://")):
        raise ValueError(f"address {address!r}: write HOST:PORT, without http://")
    if address.startswith(("unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:", "xds:")):
        return address
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"address {address!r}: write HOST:PORT, for example {DEFAULT_ADDRESS}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"address {address!r}: write an IPv6 address in brackets, for example [::1]:50051")
    return address


def channel_options(address: str) -> list[tuple[str, Any]]:
    """Return the options of a channel to this address."""
    return [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
        ("grpc.enable_retries", 1),
        # Pings only while a call is open, so that a dead peer is noticed and an idle channel costs nothing.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # A server that is just starting is found again quickly.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        # A proxy of the environment cannot reach this machine's own loopback.
        ("grpc.enable_http_proxy", 0 if address.startswith(_LOOPBACK) else 1),
    ]


def open_channel(address: str) -> grpc.Channel:
    """Open a channel for threads; connects at the first call.

    Raises:
        ValueError: the address is not one.
    """
    return grpc.insecure_channel(check_address(address), options=channel_options(address))


def open_async_channel(address: str) -> aio.Channel:
    """Open a channel for asyncio; to be called in the event loop that will use it.

    Raises:
        ValueError: the address is not one.
    """
    return aio.insecure_channel(check_address(address), options=channel_options(address))

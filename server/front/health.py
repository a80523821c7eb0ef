"""Answers grpc.health.v1: readiness for each service, and liveness of the process.

Unlike the servicer of grpcio-health-checking it holds no lock while it writes to a watcher, so that a watcher who stops
reading cannot delay the news that the server is draining.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import grpc
from grpc_health.v1 import health_pb2

SERVICE = "grpc.health.v1.Health"
OVERALL = ""
# For liveness probes: SERVING from the start until the event loop or a worker is dead.
LIVENESS = "liveness"
# A client library has one open for each channel that watches the health of its server.
MOST_WATCHERS = 4096

Status = health_pb2.HealthCheckResponse.ServingStatus
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

Context = grpc.aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]


class Health:
    """The health status of each service, and its watchers. Use it in the event loop only.

    Args:
        services: full names of the services that become ready together.
        most_watchers: that may watch at a time; checks have no such bound.
    """

    def __init__(self, services: Iterable[str], *, most_watchers: int = MOST_WATCHERS) -> None:
        self._services = (OVERALL, *services)
        self._ready = False
        self._alive = True
        self._changed = asyncio.Event()
        self._most_watchers = most_watchers
        self._watchers = 0

    def set_ready(self, ready: bool) -> None:
        """Set whether the server accepts calls."""
        self._ready = ready
        self._announce()

    def set_alive(self, alive: bool) -> None:
        """Set whether the workers are alive; without them nothing is ready."""
        if alive != self._alive:
            self._alive = alive
            self._announce()

    def status(self, name: str) -> Status:
        """Return the current status of a service."""
        if name == LIVENESS:
            return SERVING if self._alive else NOT_SERVING
        if name in self._services:
            return SERVING if self._alive and self._ready else NOT_SERVING
        return SERVICE_UNKNOWN

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the gRPC handlers of Check and Watch."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Check": grpc.unary_unary_rpc_method_handler(
                    self._check,
                    request_deserializer=health_pb2.HealthCheckRequest.FromString,
                    response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
                ),
                "Watch": grpc.unary_stream_rpc_method_handler(
                    self._watch,
                    request_deserializer=health_pb2.HealthCheckRequest.FromString,
                    response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
                ),
            },
        )

    async def _check(self, request: health_pb2.HealthCheckRequest, context: Context) -> health_pb2.HealthCheckResponse:
        status = self.status(request.service)
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return health_pb2.HealthCheckResponse(status=status)

    async def _watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        if self._watchers >= self._most_watchers:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{self._most_watchers} callers watch already; ask by Check instead",
                (("grpc-retry-pushback-ms", "-1"),),
            )
        self._watchers += 1
        try:
            await self._tell_changes(request.service, context)
        finally:
            self._watchers -= 1

    async def _tell_changes(self, service: str, context: Context) -> None:
        sent: Status | None = None
        while True:
            changed = self._changed
            status = self.status(service)
            if status != sent:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                sent = status
            await changed.wait()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

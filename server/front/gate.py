"""Lets calls through to the services while there are some, and no more at a time than the server takes.

It does not know gRPC, models or what a call does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

from regard.server.errors import NotServing, TooManyCalls

Services = TypeVar("Services")

_RETRY_AFTER = 1.0


class Gate(Generic[Services]):
    """Closed at first. To be used in the event loop.

    Args:
        max_concurrent_calls: inside at the same time.
    """

    def __init__(self, *, max_concurrent_calls: int) -> None:
        self._max = max_concurrent_calls
        self._services: Services | None = None
        self._reason = "the server is loading"
        self._inside = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def open(self, services: Services) -> None:
        """From now on calls reach these services."""
        self._services = services

    def close(self, reason: str) -> None:
        """From now on calls are refused with this reason; those inside are not touched."""
        self._services = None
        self._reason = reason

    @contextmanager
    def enter(self) -> Generator[Services]:
        """The services, for the time of one call.

        Raises:
            NotServing: there are none now.
            TooManyCalls: the bound is reached.
        """
        if self._services is None:
            raise NotServing(self._reason, _RETRY_AFTER)
        if self._inside >= self._max:
            raise TooManyCalls(
                f"{self._inside} calls are in progress, which is the limit (--max-concurrent-calls)", _RETRY_AFTER
            )
        self._inside += 1
        self._idle.clear()
        try:
            yield self._services
        finally:
            self._inside -= 1
            if not self._inside:
                self._idle.set()

    async def idle(self) -> None:
        """Wait until nobody is inside."""
        await self._idle.wait()

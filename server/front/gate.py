"""Admits calls to the services: none while the server is loading or draining, and only so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

from regard.server.errors import NotServing, TooManyCalls

Services = TypeVar("Services")

_RETRY_AFTER = 1.0


class Gate(Generic[Services]):
    """Closed at first. Use it in the event loop only.

    Args:
        max_concurrent_calls: admitted at the same time.
    """

    def __init__(self, *, max_concurrent_calls: int) -> None:
        self._max = max_concurrent_calls
        self._services: Services | None = None
        self._reason = "the server is loading"
        self._inside = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def open(self, services: Services) -> None:
        """Admit calls to these services from now on."""
        self._services = services

    def close(self, reason: str) -> None:
        """Refuse calls from now on, with this reason; those already admitted go on."""
        self._services = None
        self._reason = reason

    @contextmanager
    def enter(self) -> Generator[Services]:
        """Admit one call; yields the services.

        Raises:
            NotServing: the gate is closed.
            TooManyCalls: the limit is reached.
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
        """Wait until no call is in progress."""
        await self._idle.wait()

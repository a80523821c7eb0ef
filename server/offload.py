"""Runs work that would block the event loop in a few threads, and small work at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class Offload:
    """A bounded number of threads for parsing, tokenising and writing replies.

    Args:
        threads: how many run at the same time; further work waits.
    """

    def __init__(self, *, threads: int = 2) -> None:
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="regard-offload")

    async def run(self, work: Callable[[], Result], *, small: bool) -> Result:
        """Return the result of the work, which is done here and now if it is small.

        A cancelled caller does not wait for work that has begun; work that has not begun is dropped.
        """
        if small:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Drop waiting work and let the threads end when they are idle, without waiting for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)

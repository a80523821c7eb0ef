"""Runs work that would hold up the event loop in a few threads, and small work at once.

It does not know what the work is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class Offload:
    """A bounded number of threads for parsing, tokenising and writing replies.

    Args:
        threads: at the same time; more work waits for its turn.
    """

    def __init__(self, *, threads: int = 2) -> None:
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="regard-offload")

    async def run(self, work: Callable[[], Result], *, small: bool) -> Result:
        """The result of the work; done here and now if it is small.

        A cancelled caller does not wait for the end of work that has begun; work that has not is dropped.
        """
        if small:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Drop waiting work and end the threads as soon as they are idle; does not wait for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)

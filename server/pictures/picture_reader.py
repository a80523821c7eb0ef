"""Reads pictures in a few threads, and only as many at a time as the memory limit allows; the others wait in line."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from regard.contract.image_input import ImageInput
from regard.server.pictures.image_header import read_header
from regard.server.pictures.pixels import Picture, read_picture
from regard.server.settings import Limits

Result = TypeVar("Result")


class PictureReader:
    """To be used in the event loop.

    Args:
        limits: of files and pixels.
        memory: bytes that pictures may take while they are decoded, all together, by what their headers say. One that
            takes more is decoded alone.
        threads: at the same time.
    """

    def __init__(self, limits: Limits, *, memory: int, threads: int = 2) -> None:
        self._limits = limits
        self._memory = FairMemory(memory)
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="regard-picture")

    async def read(self, take: Callable[[], bytes], image: ImageInput, *, field: str) -> Picture:
        """Prepare a picture for a model.

        A cancelled caller returns at once; decoding that has begun runs to its end, and its memory counts until then.

        Args:
            take: returns the bytes of the file. Called twice, in a thread, so that nobody holds them while waiting.
            image: what the model takes.
            field: name of the picture in errors.

        Raises:
            InvalidRequest: the file is damaged, unsupported or beyond a limit.
        """
        header = await self._run(lambda: read_header(take(), image, limits=self._limits, field=field))
        await self._memory.take(header.decode_bytes)
        give_back = partial(self._memory.give, header.decode_bytes)
        return await self._run(lambda: read_picture(take(), header, image, field=field), after=give_back)

    def close(self) -> None:
        """Drop waiting work and let the threads end when they are idle, without waiting for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], Result], after: Callable[[], None] | None = None) -> Result:
        """The result of work in a thread; `after` is called in the event loop when it has really ended."""
        loop = asyncio.get_running_loop()
        future = self._threads.submit(work)
        if after is not None:

            def ended(_: Future[Result]) -> None:
                with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                    loop.call_soon_threadsafe(after)

            future.add_done_callback(ended)
        return await asyncio.wrap_future(future)


class FairMemory:
    """A memory budget whose waiters are served in order of arrival.

    To be used in the event loop.

    Args:
        limit: bytes held at the same time. A request for more is granted once nothing else is held.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held = 0

    async def take(self, count: int) -> None:
        """Wait for so many bytes; return them with `give`."""
        if not self._waiting and self._fits(count):
            self.held += count
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (count, granted)
        self._waiting.append(entry)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.give(count)
            else:
                with suppress(ValueError):  # It was passed over already.
                    self._waiting.remove(entry)
                self._serve()
            raise

    def give(self, count: int) -> None:
        """Return so many bytes."""
        self.held -= count
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            count, granted = self._waiting.popleft()
            if not granted.done():
                self.held += count
                granted.set_result(None)

    def _fits(self, count: int) -> bool:
        return not self.held or self.held + count <= self._limit

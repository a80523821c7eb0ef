"""Reads pictures in a few threads, and no more of them at a time than memory allows; the others wait in line.

It does not know requests, models beyond what pictures they take, or who waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from regard.server.bundle.image_input import ImageInput
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
        self._memory = MemoryInTurn(memory)
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="regard-picture")

    async def read(self, take: Callable[[], bytes], image: ImageInput, *, field: str) -> Picture:
        """Make a picture ready for a model.

        A cancelled caller does not wait; what is being decoded then goes on, and is counted, to its end.

        Args:
            take: gives the bytes of the file; called in a thread, and twice, so that nobody holds them while waiting.
            image: what the model takes.
            field: what errors call the picture.

        Raises:
            InvalidRequest: it cannot or must not be read.
        """
        header = await self._run(lambda: read_header(take(), image, limits=self._limits, field=field))
        await self._memory.take(header.decode_bytes)
        give_back = partial(self._memory.give, header.decode_bytes)
        return await self._run(lambda: read_picture(take(), header, image, field=field), after=give_back)

    def close(self) -> None:
        """Drop waiting work and end the threads as soon as they are idle; does not wait for them."""
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


class MemoryInTurn:
    """Bytes that some may take; whoever finds too few left waits, first come, first served.

    To be used in the event loop.

    Args:
        limit: of all together. One that wants more is served when nobody has any.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held = 0

    async def take(self, count: int) -> None:
        """Wait for so many bytes; to be given back by `give`."""
        if not self._waiting and self._fits(count):
            self.held += count
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (count, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(count)
            else:
                with suppress(ValueError):  # It was passed over already.
                    self._waiting.remove(entry)
                self._serve()
            raise

    def give(self, count: int) -> None:
        """So many bytes are free again."""
        self.held -= count
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            count, turn = self._waiting.popleft()
            if not turn.done():
                self.held += count
                turn.set_result(None)

    def _fits(self, count: int) -> bool:
        return not self.held or self.held + count <= self._limit

"""Works on many things at once and hands the results out in order, with a bounded amount under way.

Does not know what the work is.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(items: Iterable[_Item], work: Callable[[_Item], _Result], *, in_flight: int) -> Generator[_Result]:
    """Yield `work(item)` for every item, in order, as soon as it is there.

    Items are taken in a thread of their own, so a source that waits, such as a keyboard, holds no result back; at most
    `2 * in_flight + 2` of them have been taken and not yielded. What `items` or `work` raises is raised in its place.
    """
    pipe = _Pipe(items, work, in_flight)
    try:
        yield from pipe.results()
    finally:
        pipe.stop()


class _End:
    """The end of the items, and what ended them if they did not end by themselves."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Pipe(Generic[_Item, _Result]):
    def __init__(self, items: Iterable[_Item], work: Callable[[_Item], _Result], in_flight: int) -> None:
        self._items = items
        self._work = work
        self._executor = ThreadPoolExecutor(in_flight, thread_name_prefix="regard-call")
        self._pending: queue.Queue[Future[_Result] | _End] = queue.Queue(in_flight)
        self._stopped = threading.Event()
        # A daemon: it may wait for a keyboard for ever, and must not keep a finished command alive.
        threading.Thread(target=self._feed, name="regard-read", daemon=True).start()

    def results(self) -> Iterator[_Result]:
        while not isinstance(pending := self._pending.get(), _End):
            yield pending.result()
        if pending.error is not None:
            raise pending.error

    def stop(self) -> None:
        self._stopped.set()
        self._executor.shutdown(wait=False, cancel_futures=True)
        with suppress(queue.Empty):
            while True:  # makes room for the reader, which then sees that it is over
                self._pending.get_nowait()

    def _feed(self) -> None:
        end = _End(None)
        try:
            for item in self._items:
                if self._stopped.is_set():
                    return
                self._pending.put(self._executor.submit(self._work, item))
        except BaseException as error:  # raised again in the thread that consumes
            end = _End(error)
        if not self._stopped.is_set():
            self._pending.put(end)

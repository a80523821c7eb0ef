"""Decides which waiting segment runs next, and refuses what does not fit in the queue.

It is pure: callers hold a lock and pass the time in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from regard.server.engine.segment import PoolKey, Segment, Status
from regard.server.errors import QueueFull

# Bounds of the advice to try again, seconds.
_SOONEST_RETRY = 0.1
_LATEST_RETRY = 10.0
_SWEEP_FROM = 256
# What encoding one source counts for at least, however few positions it has: a picture of few cells is work, too.
_LEAST_CELLS = 16
_WHILE_IDLE = 4


@dataclass(slots=True)
class Room:
    """What a worker can take now.

    Attributes:
        rows: free rows of the worker.
        pools: free rows of those pools that have fewer than a new one.
        pool_rows: rows of a new pool of a source width.
        wanted: rows after which the worker has its fair share.
        cells: rows times source width that it will encode at once; one segment is taken however wide it is.
        idle: it has no rows that encoding would keep waiting, so that it will encode more.
    """

    rows: int
    pools: dict[PoolKey, int]
    pool_rows: Callable[[int], int]
    wanted: int
    cells: int
    idle: bool = False


class WaitingQueue:
    """Segments that wait, at most `capacity`: higher priorities first, then in the order in which they came.

    A segment that finds its pool full lets those of other pools pass, and none of its own. One that does not fit in the
    worker at all lets nobody pass, so that wide beams do not starve.
    """

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._order = 0
        self._heaps: dict[PoolKey, list[tuple[int, int, Segment]]] = {}
        self._deadlines: list[tuple[float, int, Segment]] = []
        self._recent_wait = 0.0
        self.count = 0
        self.rows = 0

    @property
    def entries(self) -> int:
        """Places that are kept for segments, some of which may have left."""
        return len(self._deadlines) + sum(map(len, self._heaps.values()))

    def add(self, segments: Sequence[Segment]) -> None:
        """Let all of these segments wait, or none.

        Raises:
            QueueFull: they do not all fit.
        """
        if self.count + len(segments) > self._capacity:
            raise QueueFull(
                f"{self.count} segments are waiting and {len(segments)} more would exceed the limit of "
                f"{self._capacity}",
                retry_after=min(max(self._recent_wait, _SOONEST_RETRY), _LATEST_RETRY),
            )
        for segment in segments:
            self._order += 1
            segment.status = Status.WAITING
            context = segment.request.context
            heapq.heappush(self._heaps.setdefault(segment.pool, []), (-context.priority, self._order, segment))
            if context.deadline != float("inf"):
                heapq.heappush(self._deadlines, (context.deadline, self._order, segment))
            self.count += 1
            self.rows += segment.rows
        self._sweep()

    def withdraw(self, segments: Iterable[Segment]) -> list[Segment]:
        """Take out those of these segments that wait, and return them."""
        found = [segment for segment in segments if segment.status is Status.WAITING]
        for segment in found:
            self._leave(segment)
        return found

    def expire(self, now: float) -> list[Segment]:
        """Take out the segments whose deadline has come, and return them."""
        late: list[Segment] = []
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].status is not Status.WAITING):
            late.append(heapq.heappop(self._deadlines)[2])
        return self.withdraw(late)

    def take(self, room: Room, now: float) -> list[Segment]:
        """Take out, in order, the segments that a worker has room for. Expired ones must have been taken out before."""
        taken: list[Segment] = []
        full: set[PoolKey] = set()
        while room.wanted > 0 and (room.cells > 0 or not taken):
            key = self._next(full)
            if key is None:
                break
            segment = self._heaps[key][0][2]
            if segment.rows > room.rows:
                break
            free = room.pools.get(key, room.pool_rows(key.width))
            if segment.rows > free:
                full.add(key)
                continue
            cells = max(segment.pool.width, _LEAST_CELLS)
            if room.idle and segment.request.source.ndim == 1:
                # Texts that start together share all their steps. Pictures would take too much memory.
                cells //= _WHILE_IDLE
            if taken and cells > room.cells:
                break
            self._leave(segment)
            self._recent_wait = now - segment.submitted
            taken.append(segment)
            room.rows -= segment.rows
            room.pools[key] = free - segment.rows
            room.wanted -= segment.rows
            room.cells -= cells
        return taken

    def _next(self, full: set[PoolKey]) -> PoolKey | None:
        """Return the pool whose first waiting segment goes first, leaving out full ones."""
        best: tuple[int, int] | None = None
        best_key: PoolKey | None = None
        for key in list(self._heaps):
            heap = self._heaps[key]
            while heap and heap[0][2].status is not Status.WAITING:
                heapq.heappop(heap)
            if not heap:
                del self._heaps[key]
            elif key not in full and (best is None or heap[0][:2] < best):
                best, best_key = heap[0][:2], key
        return best_key

    def _sweep(self) -> None:
        """Forget entries whose segments have left, once they are the greater part."""
        if self.entries <= 4 * self.count + _SWEEP_FROM:
            return
        self._deadlines = [entry for entry in self._deadlines if entry[2].status is Status.WAITING]
        heapq.heapify(self._deadlines)
        for key, heap in list(self._heaps.items()):
            self._heaps[key] = [entry for entry in heap if entry[2].status is Status.WAITING]
            heapq.heapify(self._heaps[key])

    def _leave(self, segment: Segment) -> None:
        # Its entries in the heaps are skipped when they come up.
        segment.status = Status.TAKEN
        self.count -= 1
        self.rows -= segment.rows

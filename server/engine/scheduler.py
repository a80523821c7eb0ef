"""Decides which waiting segment runs next, and refuses what does not fit in the queue.

It is pure: callers hold a lock and pass the time in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from regard.server.engine.segment import PoolKey, Segment, Status
from regard.server.engine.service_rate import ServiceRate
from regard.server.errors import QueueFull

# Bounds of the advice to try again, seconds.
_SOONEST_RETRY = 0.1
_LATEST_RETRY = 10.0
_SWEEP_FROM = 256
# What encoding one source counts for at least, however few positions it has: a picture of few cells is work, too.
_LEAST_CELLS = 16
_WHILE_IDLE = 4
# A call is let in if its deadline is so many times as far as its end is expected to be: some take longer than most.
_CAUTION = 1.25
# Rows of a call that go together.
_BLOCK = 32


# Priority, the higher the less; rows served when it counts as having come; order of arrival.
_Entry = tuple[int, int, int, Segment]


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

    Of a large call only the first rows count as having come with it, the others as if each block of `_BLOCK` rows had
    come after twice as many rows were served as the blocks before have. So one sentence does not wait for the five
    hundred of a call that came before, which still has half of what is served; calls of a few sentences, which would
    all end late if they took turns, go one after the other.

    A call whose deadline will have passed before its last segment can be decoded is refused when it comes: were it let
    in, all would wait until it is too late for each.

    A segment that finds its pool full lets those of other pools pass, and none of its own. One that does not fit in the
    worker at all lets nobody pass, so that wide beams do not starve.
    """

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._order = 0
        self._heaps: dict[PoolKey, list[_Entry]] = {}
        self._deadlines: list[tuple[float, int, Segment]] = []
        self._recent_wait = 0.0
        self._served = 0
        self.rate = ServiceRate()
        self.count = 0
        self.rows = 0

    @property
    def entries(self) -> int:
        """Places that are kept for segments, some of which may have left."""
        return len(self._deadlines) + sum(map(len, self._heaps.values()))

    def add(self, segments: Sequence[Segment], now: float) -> None:
        """Let all of these segments, which are those of one call, wait, or none.

        Raises:
            QueueFull: they do not all fit, or would have to wait for longer than their deadline.
        """
        if self.count + len(segments) > self._capacity:
            raise QueueFull(
                f"{self.count} segments are waiting and {len(segments)} more would exceed the limit of "
                f"{self._capacity}",
                retry_after=min(max(self._recent_wait, _SOONEST_RETRY), _LATEST_RETRY),
            )
        self._check_deadline(segments, now)
        before = 0
        for segment in segments:
            self._order += 1
            tag = self._tag(before)
            before += segment.rows
            segment.status = Status.WAITING
            context = segment.request.context
            heapq.heappush(self._heaps.setdefault(segment.pool, []), (-context.priority, tag, self._order, segment))
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
            segment = self._heaps[key][0][3]
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
            self._served += segment.rows
            self._recent_wait = now - segment.submitted
            taken.append(segment)
            room.rows -= segment.rows
            room.pools[key] = free - segment.rows
            room.wanted -= segment.rows
            room.cells -= cells
        if taken:
            self.rate.taken(sum(segment.rows for segment in taken), now, left=self.count)
        return taken

    def _tag(self, before: int) -> int:
        """Return after how many served rows a segment counts as having come, before which its call has `before`."""
        return self._served + 2 * _BLOCK * (before // _BLOCK)

    def _check_deadline(self, segments: Sequence[Segment], now: float) -> None:
        """Raise QueueFull if the last of these segments would not be decoded by the deadline of their call."""
        if not segments or not self.count:
            return
        context = segments[0].request.context
        if context.deadline <= now:  # It is expired with the error that says so.
            return
        own = sum(segment.rows for segment in segments)
        left = (context.deadline - now) / _CAUTION - self.rate.decode_seconds
        # Looking through the queue is for those who would be late if all that waits went first.
        most = self.rate.wait(self.rows + own)
        if not most or most <= left:
            return
        last = (-context.priority, self._tag(own - segments[-1].rows))
        ahead = sum(
            entry[3].rows
            for heap in self._heaps.values()
            for entry in heap
            if entry[:2] <= last and entry[3].status is Status.WAITING
        )
        wait = self.rate.wait(ahead + own)
        if wait > left:
            raise QueueFull(
                f"{self.count} segments are waiting, about {wait + self.rate.decode_seconds:.1f} s of work with this "
                f"call, whose deadline is in {context.deadline - now:.1f} s",
                retry_after=min(max(wait - max(left, 0.0), _SOONEST_RETRY), _LATEST_RETRY),
            )

    def _next(self, full: set[PoolKey]) -> PoolKey | None:
        """Return the pool whose first waiting segment goes first, leaving out full ones."""
        best: tuple[int, int, int] | None = None
        best_key: PoolKey | None = None
        for key in list(self._heaps):
            heap = self._heaps[key]
            while heap and heap[0][3].status is not Status.WAITING:
                heapq.heappop(heap)
            if not heap:
                del self._heaps[key]
            elif key not in full and (best is None or heap[0][:3] < best):
                best, best_key = heap[0][:3], key
        return best_key

    def _sweep(self) -> None:
        """Forget entries whose segments have left, once they are the greater part."""
        if self.entries <= 4 * self.count + _SWEEP_FROM:
            return
        self._deadlines = [entry for entry in self._deadlines if entry[2].status is Status.WAITING]
        heapq.heapify(self._deadlines)
        for key, heap in list(self._heaps.items()):
            self._heaps[key] = [entry for entry in heap if entry[3].status is Status.WAITING]
            heapq.heapify(self._heaps[key])

    def _leave(self, segment: Segment) -> None:
        # Its entries in the heaps are skipped when they come up.
        segment.status = Status.TAKEN
        self.count -= 1
        self.rows -= segment.rows

"""Decides which waiting segment runs next, and refuses what does not fit in the queue.

Does not know threads, models or clocks: callers hold a lock and pass the time in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.server.errors import QueueFull, RegardError
from regard.server.request import DecodeRequest, DecodeResult, ModelKey, Weights

# Bounds of the advice to try again, seconds.
_SOONEST_RETRY = 0.1
_LATEST_RETRY = 10.0
_SWEEP_FROM = 256
# What encoding one source counts for at least, however few positions it has: a picture of few cells is work, too.
_LEAST_CELLS = 16
_WHILE_IDLE = 4


class PoolKey(NamedTuple):
    """Rows that can share a step.

    Attributes:
        model: that decodes them.
        width: that their sources are padded to.
        choice: of tokens that the model chooses among (`DecoderFacts.choices`); None for all.
    """

    model: ModelKey
    width: int
    choice: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One segment on its way from submission to its outcome.

    Attributes:
        pool: where it can run.
        rows: that it takes there.
        request: what was asked.
        deliver: takes the outcome; called once.
        submitted: when it came; seconds.
        waiting: it is in the queue.
        cancelled: the caller went away.
        delivered: the outcome is out, or about to be; whoever sets it calls `deliver`.
        encoder_attention: what encoding looked at [layer, head, query, source], once it is encoded and if that was
            asked for.
    """

    pool: PoolKey
    rows: int
    request: DecodeRequest
    deliver: Callable[[DecodeResult | RegardError], None]
    submitted: float
    waiting: bool = False
    cancelled: bool = False
    delivered: bool = False
    encoder_attention: Weights | None = None


@dataclass(slots=True)
class Room:
    """What a worker can take now.

    Attributes:
        rows: free rows of the worker.
        pools: free rows of those pools that have fewer than a new one.
        pool_rows: rows of a new pool of a source width.
        wanted: rows after which the worker has its fair share.
        cells: rows times source width that it will encode at once; one job is taken however wide it is.
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
        self._heaps: dict[PoolKey, list[tuple[int, int, Job]]] = {}
        self._deadlines: list[tuple[float, int, Job]] = []
        self._recent_wait = 0.0
        self.count = 0
        self.rows = 0

    @property
    def entries(self) -> int:
        """Places that are kept for segments, some of which may have left."""
        return len(self._deadlines) + sum(map(len, self._heaps.values()))

    def add(self, jobs: Sequence[Job]) -> None:
        """Let all of these jobs wait, or none.

        Raises:
            QueueFull: they do not all fit.
        """
        if self.count + len(jobs) > self._capacity:
            raise QueueFull(
                f"{self.count} segments are waiting and {len(jobs)} more would exceed the limit of {self._capacity}",
                retry_after=min(max(self._recent_wait, _SOONEST_RETRY), _LATEST_RETRY),
            )
        for job in jobs:
            self._order += 1
            job.waiting = True
            context = job.request.context
            heapq.heappush(self._heaps.setdefault(job.pool, []), (-context.priority, self._order, job))
            if context.deadline != float("inf"):
                heapq.heappush(self._deadlines, (context.deadline, self._order, job))
            self.count += 1
            self.rows += job.rows
        self._sweep()

    def withdraw(self, jobs: Iterable[Job]) -> list[Job]:
        """Take out those of these jobs that wait, and return them."""
        found = [job for job in jobs if job.waiting]
        for job in found:
            self._leave(job)
        return found

    def expire(self, now: float) -> list[Job]:
        """Take out the jobs whose deadline has come, and return them."""
        late: list[Job] = []
        while self._deadlines and (self._deadlines[0][0] <= now or not self._deadlines[0][2].waiting):
            late.append(heapq.heappop(self._deadlines)[2])
        return self.withdraw(late)

    def take(self, room: Room, now: float) -> list[Job]:
        """Take out, in order, the jobs that a worker has room for. Expired ones must have been taken out before."""
        taken: list[Job] = []
        full: set[PoolKey] = set()
        while room.wanted > 0 and (room.cells > 0 or not taken):
            key = self._next(full)
            if key is None:
                break
            job = self._heaps[key][0][2]
            if job.rows > room.rows:
                break
            free = room.pools.get(key, room.pool_rows(key.width))
            if job.rows > free:
                full.add(key)
                continue
            cells = max(job.pool.width, _LEAST_CELLS)
            if room.idle and job.request.source.ndim == 1:
                # Texts that start together share all their steps. Pictures would take too much memory.
                cells //= _WHILE_IDLE
            if taken and cells > room.cells:
                break
            self._leave(job)
            self._recent_wait = now - job.submitted
            taken.append(job)
            room.rows -= job.rows
            room.pools[key] = free - job.rows
            room.wanted -= job.rows
            room.cells -= cells
        return taken

    def _next(self, full: set[PoolKey]) -> PoolKey | None:
        """Return the pool whose first waiting job goes first, leaving out full ones."""
        best: tuple[int, int] | None = None
        best_key: PoolKey | None = None
        for key in list(self._heaps):
            heap = self._heaps[key]
            while heap and not heap[0][2].waiting:
                heapq.heappop(heap)
            if not heap:
                del self._heaps[key]
            elif key not in full and (best is None or heap[0][:2] < best):
                best, best_key = heap[0][:2], key
        return best_key

    def _sweep(self) -> None:
        """Forget entries whose jobs have left, once they are the greater part."""
        if self.entries <= 4 * self.count + _SWEEP_FROM:
            return
        self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
        heapq.heapify(self._deadlines)
        for key, heap in list(self._heaps.items()):
            self._heaps[key] = [entry for entry in heap if entry[2].waiting]
            heapq.heapify(self._heaps[key])

    def _leave(self, job: Job) -> None:
        # Its entries in the heaps are skipped when they come up.
        job.waiting = False
        self.count -= 1
        self.rows -= job.rows

"""Hands waiting segments to workers and outcomes to their receivers; holds the one lock between callers and workers.

Does not know how threads begin and end, nor models and what is asked of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regard.server.engine.engine_settings import EngineSettings
from regard.server.engine.scheduler import Job, Room, WaitingQueue
from regard.server.engine.worker import Worker
from regard.server.errors import CallCancelled, DeadlinePassed, NotServing, RegardError
from regard.server.observer import EngineObserver
from regard.server.request import DecodeResult

_log = logging.getLogger(__name__)

_RETRY_WHILE_STOPPING = 1.0


@dataclass(slots=True, eq=False)
class Seat:
    """One worker and its thread, as the others see them; guarded by the lock of the dispatch.

    Attributes:
        taken: out of the queue in this turn of the thread, and not yet in the hands of the worker or answered.
        owned_rows: rows that its segments own, those of `taken` included.
        running: its segments, those of `taken` included.
        cancellations: those that it has acted upon.
        last_turn: when it last came by; seconds.
        idle: it waits for work.
    """

    worker: Worker
    taken: list[Job] = field(default_factory=list[Job])
    owned_rows: int = 0
    running: int = 0
    cancellations: int = 0
    last_turn: float = 0.0
    idle: bool = True


class Dispatch:
    """The queue, and who works on what was taken from it. Thread-safe."""

    def __init__(self, settings: EngineSettings, observer: EngineObserver, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._changed = threading.Condition()
        self._queue = WaitingQueue(capacity=settings.queue_limit)
        self._withdrawn: list[Job] = []
        self._open: set[Job] = set()
        self._seats: list[Seat] = []
        self._cancellations = 0
        self._reported = (0, 0)
        self._accepting = False
        self._stopping = False
        self._aborting = False

    def open(self, workers: Sequence[Worker]) -> list[Seat]:
        """Take segments from now on, for these workers. Returns the seats to call `turn` with, from one thread each."""
        with self._changed:
            if self._accepting or self._stopping:
                raise RuntimeError("an engine is started once")
            self._accepting = True
            self._seats = [Seat(worker, last_turn=self._clock()) for worker in workers]
            return self._seats

    def admit(self, jobs: Sequence[Job]) -> None:
        """Let all of these segments wait, or none.

        Raises:
            QueueFull: too many are waiting.
            NotServing: not open yet, or not any more.
        """
        with self._changed:
            if not self._accepting:
                raise NotServing("the server is starting or draining", _RETRY_WHILE_STOPPING)
            self._queue.add(jobs)
            self._open.update(jobs)
            self._changed.notify_all()

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Give up those of these segments that are not answered yet."""
        with self._changed:
            for job in jobs:
                job.cancelled = True
            self._withdrawn.extend(self._queue.withdraw(jobs))
            self._cancellations += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Take no more segments; `turn` returns False when all are done."""
        with self._changed:
            self._accepting = False
            self._stopping = True
            self._changed.notify_all()

    def abort(self) -> None:
        """Answer all that is left with NotServing; `turn` returns False at once."""
        with self._changed:
            self._aborting = True
            left = list(self._open)
            self._changed.notify_all()
        for job in left:
            self.finish(job, NotServing("the server is draining", _RETRY_WHILE_STOPPING))

    def finish(self, job: Job, outcome: DecodeResult | RegardError) -> None:
        """Hand over the outcome of a segment, unless it has one already."""
        with self._changed:
            if job.delivered:
                return
            job.delivered = True
            self._open.discard(job)
        try:
            job.deliver(outcome)
        except Exception:
            _log.exception("the outcome of request %s could not be handed over", job.request.context.request_id)

    @property
    def waiting(self) -> int:
        """Segments that wait."""
        with self._changed:
            return self._queue.count

    @property
    def running(self) -> int:
        """Segments that are being encoded or have rows."""
        with self._changed:
            return sum(seat.running for seat in self._seats)

    def stalled(self) -> bool:
        """Tell whether a worker has been at one encoding or step for longer than `stall_seconds`."""
        with self._changed:
            longest = self._clock() - self._settings.stall_seconds
            return any(not seat.idle and seat.last_turn <= longest for seat in self._seats)

    def turn(self, seat: Seat) -> bool:
        """Wait for work, do what comes before one step, and the step; False once there is nothing left to do.

        A fault of the engine itself is answered to whoever was in the hands of the worker, which goes on.
        """
        try:
            return self._turn(seat)
        except Exception:
            seat.worker.fail(seat.taken)
            seat.taken = []
            return True

    def _turn(self, seat: Seat) -> bool:
        with self._changed:
            while True:
                seat.last_turn = now = self._clock()
                seat.idle = False
                late = self._queue.expire(now)
                withdrawn, self._withdrawn = self._withdrawn, []
                if self._aborting:
                    return False
                jobs = self._take(seat, now)
                if jobs or late or withdrawn or seat.running:
                    break
                if self._stopping:
                    return False
                seat.idle = True
                self._report()
                self._changed.wait()
            seat.taken = [*late, *withdrawn, *jobs]
            self._report()
        for job in late:
            self.finish(job, DeadlinePassed("queue"))
        for job in withdrawn:
            self.finish(job, CallCancelled("the caller went away"))
        seat.worker.start(jobs)
        seat.taken = []
        # Last of all, so that whoever was given up until now has no part in the step.
        cancellations = self._cancellations
        seat.worker.drop(cancelled=cancellations != seat.cancellations)
        seat.cancellations = cancellations
        seat.worker.step()
        return True

    def _take(self, seat: Seat, now: float) -> list[Job]:
        """Take what the worker has room for from the queue; the lock is held.

        Rows, running and waiting, are shared out evenly, so that the segments of one call spread over the workers.
        """
        seat.owned_rows, seat.running = seat.worker.owned, seat.worker.running
        free = self._settings.rows - seat.owned_rows
        if not self._queue.count or free < 1:
            return []
        owned = sum(other.owned_rows for other in self._seats)
        share = -(-(owned + self._queue.rows) // len(self._seats))
        room = Room(
            rows=free,
            pools=seat.worker.free(),
            pool_rows=self._settings.pool_rows,
            wanted=share - seat.owned_rows,
            cells=self._settings.encode_cells,
            idle=not seat.running,
        )
        jobs = self._queue.take(room, now)
        seat.owned_rows += sum(job.rows for job in jobs)
        seat.running += len(jobs)
        return jobs

    def _report(self) -> None:
        """Tell the observer how many segments wait and run, if that has changed; the lock is held."""
        counts = (self._queue.count, sum(seat.running for seat in self._seats))
        if counts != self._reported:
            self._reported = counts
            self._observer.waiting(counts[0])
            self._observer.running(counts[1])

"""Hands waiting segments to workers and outcomes to their receivers; holds the one lock between callers and workers.

It knows neither how threads begin and end nor what is asked of models.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regard.server.engine.engine_settings import EngineSettings
from regard.server.engine.scheduler import Room, WaitingQueue
from regard.server.engine.segment import Segment, Status
from regard.server.engine.worker import Worker
from regard.server.errors import CallCancelled, DeadlinePassed, NotServing, RegardError
from regard.server.observer import EngineObserver
from regard.server.request import DecodeResult

_log = logging.getLogger(__name__)

_RETRY_WHILE_STOPPING = 1.0


@dataclass(slots=True, eq=False)
class WorkerSlot:
    """One worker and its thread, as the others see them; guarded by the lock of the dispatch.

    Attributes:
        taken: out of the queue in this iteration, and not yet in the hands of the worker or answered.
        owned_rows: rows that its segments own, those of `taken` included.
        running: its segments, those of `taken` included.
        cancellations: number of calls to `Dispatch.cancel` that it has acted upon.
        last_iteration: when it began; seconds.
        idle: it waits for work.
    """

    worker: Worker
    taken: list[Segment] = field(default_factory=list[Segment])
    owned_rows: int = 0
    running: int = 0
    cancellations: int = 0
    last_iteration: float = 0.0
    idle: bool = True


class Dispatch:
    """The queue, and who works on what was taken from it. Thread-safe."""

    def __init__(self, settings: EngineSettings, observer: EngineObserver, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._changed = threading.Condition()
        self._queue = WaitingQueue(capacity=settings.queue_limit)
        self._withdrawn: list[Segment] = []
        self._open: set[Segment] = set()
        self._slots: list[WorkerSlot] = []
        self._cancellations = 0
        self._reported = (0, 0)
        self._accepting = False
        self._stopping = False
        self._aborting = False

    def open(self, workers: Sequence[Worker]) -> list[WorkerSlot]:
        """Take segments from now on, for these workers. Returns what to call `iterate` with, a slot for each thread."""
        with self._changed:
            if self._accepting or self._stopping:
                raise RuntimeError("an engine is started once")
            self._accepting = True
            self._slots = [WorkerSlot(worker, last_iteration=self._clock()) for worker in workers]
            return self._slots

    def admit(self, segments: Sequence[Segment]) -> None:
        """Let all of these segments wait, or none.

        Raises:
            QueueFull: too many are waiting, or for too long to be in time.
            NotServing: not open yet, or not any more.
        """
        with self._changed:
            if not self._accepting:
                raise NotServing("the server is starting or draining", _RETRY_WHILE_STOPPING)
            self._queue.add(segments, self._clock())
            self._open.update(segments)
            self._changed.notify_all()

    def cancel(self, segments: Sequence[Segment]) -> None:
        """Give up those of these segments that are not answered yet."""
        with self._changed:
            for segment in segments:
                segment.cancelled = True
            self._withdrawn.extend(self._queue.withdraw(segments))
            self._cancellations += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Take no more segments; `iterate` returns False when all are done."""
        with self._changed:
            self._accepting = False
            self._stopping = True
            self._changed.notify_all()

    def abort(self) -> None:
        """Answer all that is left with NotServing; `iterate` returns False at once."""
        with self._changed:
            self._aborting = True
            left = list(self._open)
            self._changed.notify_all()
        for segment in left:
            self.finish(segment, NotServing("the server is draining", _RETRY_WHILE_STOPPING))

    def finish(self, segment: Segment, outcome: DecodeResult | RegardError) -> None:
        """Hand over the outcome of a segment, unless it has one already."""
        with self._changed:
            if segment.status is Status.ANSWERED:
                return
            segment.status = Status.ANSWERED
            self._open.discard(segment)
            if isinstance(outcome, DecodeResult):
                self._queue.rate.decoded(self._clock() - segment.admitted)
        try:
            segment.deliver(outcome)
        except Exception:
            _log.exception("the outcome of request %s could not be handed over", segment.request.context.request_id)

    @property
    def waiting(self) -> int:
        """Segments that wait."""
        with self._changed:
            return self._queue.count

    @property
    def running(self) -> int:
        """Segments that are being encoded or have rows."""
        with self._changed:
            return sum(slot.running for slot in self._slots)

    def stalled(self) -> bool:
        """Tell whether a worker has been at one encoding or step for longer than `stall_seconds`."""
        with self._changed:
            longest = self._clock() - self._settings.stall_seconds
            return any(not slot.idle and slot.last_iteration <= longest for slot in self._slots)

    def iterate(self, slot: WorkerSlot) -> bool:
        """Wait for work, do what comes before one step, and the step; False once there is nothing left to do.

        A fault of the engine itself is answered to whoever was in the hands of the worker, which goes on.
        """
        try:
            return self._iterate(slot)
        except Exception:
            slot.worker.fail(slot.taken)
            slot.taken = []
            return True

    def _iterate(self, slot: WorkerSlot) -> bool:
        with self._changed:
            while True:
                slot.last_iteration = now = self._clock()
                slot.idle = False
                late = self._queue.expire(now)
                withdrawn, self._withdrawn = self._withdrawn, []
                if self._aborting:
                    return False
                segments = self._take(slot, now)
                if segments or late or withdrawn or slot.running:
                    break
                if self._stopping:
                    return False
                slot.idle = True
                self._report()
                self._changed.wait()
            slot.taken = [*late, *withdrawn, *segments]
            self._report()
        for segment in late:
            self.finish(segment, DeadlinePassed("queue"))
        for segment in withdrawn:
            self.finish(segment, CallCancelled("the caller went away"))
        slot.worker.start(segments)
        slot.taken = []
        # Last of all, so that whoever was given up until now has no part in the step.
        cancellations = self._cancellations
        slot.worker.drop(cancelled=cancellations != slot.cancellations)
        slot.cancellations = cancellations
        slot.worker.step()
        return True

    def _take(self, slot: WorkerSlot, now: float) -> list[Segment]:
        """Take what the worker has room for from the queue; the lock is held.

        Rows, running and waiting, are shared out evenly, so that the segments of one call spread over the workers.
        """
        slot.owned_rows, slot.running = slot.worker.owned, slot.worker.running
        free = self._settings.rows - slot.owned_rows
        if not self._queue.count or free < 1:
            return []
        owned = sum(other.owned_rows for other in self._slots)
        share = -(-(owned + self._queue.rows) // len(self._slots))
        room = Room(
            rows=free,
            pools=slot.worker.free(),
            pool_rows=self._settings.pool_rows,
            wanted=share - slot.owned_rows,
            cells=self._settings.encode_cells,
            idle=not slot.running,
        )
        segments = self._queue.take(room, now)
        slot.owned_rows += sum(segment.rows for segment in segments)
        slot.running += len(segments)
        return segments

    def _report(self) -> None:
        """Tell the observer how many segments wait and run, if that has changed; the lock is held."""
        counts = (self._queue.count, sum(slot.running for slot in self._slots))
        if counts != self._reported:
            self._reported = counts
            self._observer.waiting(counts[0])
            self._observer.running(counts[1])

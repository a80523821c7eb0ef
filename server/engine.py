"""Takes segments from any thread, has worker threads decode them, and answers each exactly once.

Does not know texts, protobuf, asyncio or what runs the models.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from server.decoder import Decoder
from server.engine_settings import EngineSettings
from server.errors import (
    CallCancelled,
    DeadlinePassed,
    InvalidRequest,
    NotServing,
    RegardError,
)
from server.observer import EngineObserver
from server.request import DecodeRequest, DecodeResult, ModelKey
from server.request_check import check_request
from server.scheduler import Job, PoolKey, Room, WaitingQueue
from server.slots import rows_needed
from server.worker import Worker

__all__ = ["Engine", "EngineObserver", "EngineSettings", "Outcome", "Ticket"]

_log = logging.getLogger(__name__)

Outcome = DecodeResult | RegardError

_RETRY_WHILE_STOPPING = 1.0
# How long `stop` waits, after the grace, for a step that cannot be interrupted.
_LAST_STEP_SECONDS = 5.0


class Ticket:
    """The segments of one call, to cancel them by."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = tuple(jobs)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The segments."""
        return self._jobs


@dataclass(slots=True, eq=False)
class _Seat:
    """One worker thread, as the others see it; guarded by the engine's lock.

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
    thread: threading.Thread | None = None
    owned_rows: int = 0
    running: int = 0
    cancellations: int = 0
    last_turn: float = 0.0
    idle: bool = True


class Engine:
    """Decodes segments of several models on a fixed number of worker threads.

    Thread-safe. Between any two steps a worker drops cancelled and expired segments, takes waiting ones up to its share
    and its room, and encodes them; its pools are stepped in turn.
    """

    def __init__(
        self,
        models: Mapping[ModelKey, Decoder],
        settings: EngineSettings,
        observer: EngineObserver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = dict(models)
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._changed = threading.Condition()
        self._queue = WaitingQueue(capacity=settings.queue_limit)
        self._withdrawn: list[Job] = []
        self._open: set[Job] = set()
        self._cancellations = 0
        self._reported = (0, 0)
        self._accepting = False
        self._stopping = False
        self._aborting = False
        self._seats = [
            _Seat(Worker(self._models, settings, observer, clock, self._finish)) for _ in range(settings.workers)
        ]

    def start(self) -> None:
        """Start the worker threads and take requests. Call it once."""
        with self._changed:
            if self._accepting or self._stopping:
                raise RuntimeError("an engine is started once")
            self._accepting = True
            for number, seat in enumerate(self._seats):
                seat.last_turn = self._clock()
                seat.thread = threading.Thread(target=self._work, args=(seat,), name=f"decode-{number}", daemon=True)
        for seat in self._seats:
            assert seat.thread is not None
            seat.thread.start()

    def submit(
        self, key: ModelKey, requests: Sequence[DecodeRequest], on_done: Callable[[int, Outcome], None]
    ) -> Ticket:
        """Let all of these segments wait for decoding, or none.

        Args:
            key: a model that the engine was made with.
            requests: segments of one call.
            on_done: takes the place in `requests` and the outcome, once for each, on a worker thread; it must be quick.

        Raises:
            InvalidRequest: a request is beyond what the model or the engine can take.
            QueueFull: too many segments are waiting.
            NotServing: the engine has not started or is stopping, or has no such model.
        """
        decoder = self._models.get(key)
        if decoder is None:
            raise NotServing(f"model {key.name} version {key.version} is not loaded", _RETRY_WHILE_STOPPING)
        for place, request in enumerate(requests):
            try:
                check_request(request, decoder.facts, self._settings)
            except InvalidRequest as error:
                raise InvalidRequest(f"segments[{place}].{error.field}", error.description) from error
        now = self._clock()
        jobs = [
            Job(
                pool=PoolKey(key, self._settings.width(len(request.source))),
                rows=rows_needed(request),
                request=request,
                deliver=functools.partial(on_done, place),
                submitted=now,
            )
            for place, request in enumerate(requests)
        ]
        with self._changed:
            if not self._accepting:
                raise NotServing("the server is starting or draining", _RETRY_WHILE_STOPPING)
            self._queue.add(jobs)
            self._open.update(jobs)
            self._changed.notify_all()
        return Ticket(jobs)

    def cancel(self, ticket: Ticket) -> None:
        """Give up the segments of a call that are not answered yet; their rows are freed before the next step."""
        with self._changed:
            for job in ticket.jobs:
                job.cancelled = True
            self._withdrawn.extend(self._queue.withdraw(ticket.jobs))
            self._cancellations += 1
            self._changed.notify_all()

    def stop(self, grace: float) -> None:
        """Refuse new segments, finish the old ones, and after `grace` seconds give up what is left with NotServing."""
        end = time.monotonic() + grace
        with self._changed:
            self._accepting = False
            self._stopping = True
            self._changed.notify_all()
        self._join(end)
        with self._changed:
            self._aborting = True
            self._changed.notify_all()
        self._join(time.monotonic() + _LAST_STEP_SECONDS)
        with self._changed:
            left = list(self._open)
        for job in left:
            self._finish(job, _draining())

    def _join(self, end: float) -> None:
        for seat in self._seats:
            if seat.thread is not None:
                seat.thread.join(max(end - time.monotonic(), 0.0))

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

    def alive(self) -> bool:
        """Tell whether every worker thread lives and none has been stuck for `stall_seconds`."""
        now = self._clock()
        with self._changed:
            return all(
                seat.thread is not None
                and seat.thread.is_alive()
                and (seat.idle or now - seat.last_turn < self._settings.stall_seconds)
                for seat in self._seats
            )

    def _work(self, seat: _Seat) -> None:
        while True:
            try:
                if not self._turn(seat):
                    return
            except Exception:
                # A fault of the engine itself: whoever was in the hands of this thread is answered, and it lives on.
                seat.worker.fail(seat.taken)
                seat.taken = []

    def _turn(self, seat: _Seat) -> bool:
        """Do what comes before one step, and the step; False once there is nothing left to do."""
        worker = seat.worker
        self._drop(seat)
        with self._changed:
            while True:
                seat.last_turn = now = self._clock()
                seat.idle = False
                late = self._queue.expire(now)
                withdrawn, self._withdrawn = self._withdrawn, []
                jobs = [] if self._aborting else self._take(seat, now)
                if jobs or late or withdrawn or seat.running or self._aborting:
                    break
                if self._stopping and not self._queue.count:
                    return False
                seat.idle = True
                self._report()
                self._changed.wait()
            seat.taken = [*late, *withdrawn, *jobs]
            aborting = self._aborting
            self._report()
        for job in late:
            self._finish(job, DeadlinePassed("queue"))
        for job in withdrawn:
            self._finish(job, CallCancelled("the caller went away"))
        if aborting:
            worker.abandon(_draining)
            return False
        worker.start(jobs)
        seat.taken = []
        self._drop(seat)
        worker.step()
        return True

    def _drop(self, seat: _Seat) -> None:
        cancellations = self._cancellations
        seat.worker.drop(cancelled=cancellations != seat.cancellations)
        seat.cancellations = cancellations

    def _take(self, seat: _Seat, now: float) -> list[Job]:
        """Take what the worker has room for from the queue; the lock is held.

        Rows, running and waiting, are shared out evenly, so that the segments of one call spread over the workers.
        """
        free, pools = seat.worker.free()
        seat.owned_rows, seat.running = self._settings.rows - free, seat.worker.running
        if not self._queue.count:
            return []
        owned = sum(other.owned_rows for other in self._seats)
        share = -(-(owned + self._queue.rows) // len(self._seats))
        room = Room(
            rows=free,
            pools=pools,
            pool_rows=self._settings.pool_rows,
            wanted=share - seat.owned_rows,
            cells=self._settings.encode_cells,
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

    def _finish(self, job: Job, outcome: Outcome) -> None:
        with self._changed:
            if job.delivered:
                return
            job.delivered = True
            self._open.discard(job)
        try:
            job.deliver(outcome)
        except Exception:
            _log.exception("the outcome of request %s could not be handed over", job.request.context.request_id)


def _draining() -> RegardError:
    return NotServing("the server is draining", _RETRY_WHILE_STOPPING)

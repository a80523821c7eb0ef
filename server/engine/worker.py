"""Encodes segments, steps their pools in turn and answers them: the work of one thread, and what happens when it fails.

Does not know threads or the queue: whoever owns a worker calls it from one thread and hands it segments.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from regard.server.bundle.ports import ENCODER_ATTENTION
from regard.server.engine.decoder import Decoder, Tensors
from regard.server.engine.engine_settings import EngineSettings
from regard.server.engine.pool import Ended, Pool
from regard.server.engine.scheduler import Job, PoolKey
from regard.server.errors import CallCancelled, DeadlinePassed, EngineFault, RegardError
from regard.server.observer import EngineObserver
from regard.server.request import DecodeResult, ModelKey, Pixels, Timing

_log = logging.getLogger(__name__)

# Pools without rows that keep their buffers.
_IDLE_POOLS = 3


class Worker:
    """Pools of rows, at most `settings.rows` in all; the outcome of every job given to it goes to `finish`, once."""

    def __init__(
        self,
        decoders: Mapping[ModelKey, Decoder],
        settings: EngineSettings,
        observer: EngineObserver,
        clock: Callable[[], float],
        finish: Callable[[Job, DecodeResult | RegardError], None],
    ) -> None:
        self._decoders = decoders
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._deliver = finish
        # Given and not yet answered, in order.
        self._held: dict[Job, None] = {}
        # In the order in which their turns come.
        self._pools: dict[PoolKey, Pool] = {}

    @property
    def running(self) -> int:
        """Segments that were given and are not answered yet."""
        return len(self._held)

    @property
    def owned(self) -> int:
        """Rows that its segments own."""
        return sum([pool.owned for pool in self._pools.values()])

    def free(self) -> dict[PoolKey, int]:
        """Return how many rows may still be owned in each pool that there is."""
        return {key: pool.free for key, pool in self._pools.items()}

    def start(self, jobs: Sequence[Job]) -> None:
        """Encode segments, for which there is room, those of one pool together, and give them rows."""
        if not jobs:
            return
        self._held.update(dict.fromkeys(jobs))
        batches: dict[PoolKey, list[Job]] = {}
        for job in jobs:
            batches.setdefault(job.pool, []).append(job)
        for key, batch in batches.items():
            self._start(key, batch)

    def drop(self, *, cancelled: bool) -> None:
        """Free the rows of segments whose deadline has come and, if asked, of those whose caller went away."""
        now = self._clock()
        for pool in self._pools.values():
            for running in pool.overdue(now):
                pool.drop(running)
                self._finish(running.job, DeadlinePassed("decode"))
            if cancelled:
                for running in [running for running in pool.running if running.job.cancelled]:
                    pool.drop(running)
                    self._finish(running.job, CallCancelled("the caller went away"))

    def step(self) -> bool:
        """Run one step of the pool whose turn it is and answer the segments that end; False if there is no row."""
        key = next((key for key, pool in self._pools.items() if pool.rows), None)
        if key is None:
            return False
        pool = self._pools.pop(key)
        self._pools[key] = pool
        rows, padding = pool.rows, pool.padding_ratio
        began = self._clock()
        try:
            ended = pool.step()
        except Exception:
            self._fail_pool(key, "decode step failed")
            return True
        now = self._clock()
        self._observer.step(now - began, rows, padding)
        for entry in ended:
            self._answer(entry, now)
        return True

    def fail(self, jobs: Sequence[Job]) -> None:
        """Answer all its segments and these with a fault, for the exception being handled, and forget all rows."""
        self._pools.clear()
        self._fail(list(dict.fromkeys((*self._held, *jobs))), "a worker failed; all its pools start anew")

    def _start(self, key: PoolKey, jobs: list[Job]) -> None:
        began = self._clock()
        try:
            encoded = self._encode(key, jobs)
        except Exception:
            if len(jobs) == 1:
                self._fail(jobs, "encoding failed")
                return
            # One by one, so that only the guilty one fails.
            _log.warning("encoding %d segments together failed; trying each alone", len(jobs), exc_info=True)
            for job in jobs:
                self._start(key, [job])
            return
        now = self._clock()
        if (looked := encoded.get(ENCODER_ATTENTION)) is not None:
            for row, job in enumerate(jobs):
                # A copy, so that nobody holds the rows of others.
                job.encoder_attention = looked[row].copy() if job.request.keep_encoder_attention else None
        for job in jobs:
            self._observer.queued(began - job.submitted)
            if self._decoders[key.model].facts.pixels is None:
                self._observer.tokens("source", len(job.request.source))
        try:
            pool = self._pools.get(key)
            if pool is None:
                self._forget_idle_pools()
                capacity = self._settings.pool_rows(key.width)
                pool = Pool(self._decoders[key.model], capacity=capacity, width=key.width, choice=key.choice)
                self._pools[key] = pool
            pool.admit(jobs, encoded, now=now, encode_seconds=now - began)
        except Exception:
            self._fail_pool(key, "admission failed", also=jobs)

    def _forget_idle_pools(self) -> None:
        """Give back the buffers of pools that nobody has used for longest, so that memory follows what is in use."""
        idle = [key for key, pool in self._pools.items() if not pool.running]
        for key in idle[: max(len(idle) - _IDLE_POOLS, 0)]:
            del self._pools[key]

    def _encode(self, key: PoolKey, jobs: Sequence[Job]) -> Tensors:
        decoder = self._decoders[key.model]
        if decoder.facts.pixels is not None:
            pixels: Pixels = np.stack([job.request.source for job in jobs], dtype=np.uint8)
            length = np.full(len(jobs), key.width, dtype=np.int64)
            looked = any(job.request.keep_encoder_attention for job in jobs)
            return decoder.encode(pixels, length, encoder_attention=looked)
        source = np.full((len(jobs), key.width), decoder.facts.pad_id, dtype=np.int64)
        length = np.array([len(job.request.source) for job in jobs], dtype=np.int64)
        for row, job in enumerate(jobs):
            source[row, : length[row]] = job.request.source
        return decoder.encode(source, length)

    def _answer(self, ended: Ended, now: float) -> None:
        running = ended.running
        job = running.job
        if ended.hypotheses is None:
            fault = EngineFault(_fault_id())
            _log.error(
                "fault %s: scores or attention held NaN or infinity; model %s, request %s",
                fault.fault_id,
                "/".join(job.pool.model),
                job.request.context.request_id,
            )
            self._finish(job, fault)
            return
        self._observer.tokens("target", len(ended.hypotheses[0].tokens))
        timing = Timing(
            queue_seconds=max(running.started - running.encode_seconds - job.submitted, 0.0),
            encode_seconds=running.encode_seconds,
            decode_seconds=now - running.started,
            steps=ended.steps,
            mean_batch_rows=ended.mean_rows,
        )
        result = DecodeResult(hypotheses=ended.hypotheses, timing=timing, encoder_attention=job.encoder_attention)
        self._finish(job, result)

    def _finish(self, job: Job, outcome: DecodeResult | RegardError) -> None:
        self._held.pop(job, None)
        self._deliver(job, outcome)

    def _fail_pool(self, key: PoolKey, what: str, *, also: Sequence[Job] = ()) -> None:
        pool = self._pools.pop(key, None)
        jobs = [running.job for running in pool.running] if pool is not None else []
        self._fail(list(dict.fromkeys((*jobs, *also))), f"{what}; its pool starts anew")

    def _fail(self, jobs: Sequence[Job], what: str) -> None:
        """Log the exception that is being handled under an id, and answer jobs with it."""
        fault_id = _fault_id()
        _log.exception(
            "fault %s: %s; requests %s", fault_id, what, ", ".join(job.request.context.request_id for job in jobs)
        )
        for job in jobs:
            self._finish(job, EngineFault(fault_id))


def _fault_id() -> str:
    return uuid.uuid4().hex[:16]

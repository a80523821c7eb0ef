"""Encodes segments, steps their pools round-robin and answers them: the work of one thread, and how it fails.

It knows neither threads nor the queue: whoever owns a worker calls it from one thread and hands it segments.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from regard.contract.names import ModelKey
from regard.contract.ports import ENCODER_ATTENTION
from regard.server.engine.decoder import Decoder, Tensors
from regard.server.engine.engine_settings import EngineSettings
from regard.server.engine.pool import Pool
from regard.server.engine.segment import PoolKey, Segment
from regard.server.errors import CallCancelled, DeadlinePassed, EngineFault, RegardError
from regard.server.observer import EngineObserver
from regard.server.request import DecodeResult, Pixels, Timing

_log = logging.getLogger(__name__)

# Pools without rows that keep their buffers.
_IDLE_POOLS = 3


class Worker:
    """Pools of rows, at most `settings.rows` in all; the outcome of every segment that it gets goes to `finish`."""

    def __init__(
        self,
        decoders: Mapping[ModelKey, Decoder],
        settings: EngineSettings,
        observer: EngineObserver,
        clock: Callable[[], float],
        finish: Callable[[Segment, DecodeResult | RegardError], None],
    ) -> None:
        self._decoders = decoders
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._deliver = finish
        # Given and not yet answered, in order.
        self._held: dict[Segment, None] = {}
        # In the order in which they are stepped.
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

    def start(self, segments: Sequence[Segment]) -> None:
        """Encode segments, for which there is room, those of one pool together, and give them rows."""
        if not segments:
            return
        self._held.update(dict.fromkeys(segments))
        batches: dict[PoolKey, list[Segment]] = {}
        for segment in segments:
            batches.setdefault(segment.pool, []).append(segment)
        for key, batch in batches.items():
            self._start(key, batch)

    def drop(self, *, cancelled: bool) -> None:
        """Free the rows of segments whose deadline has come and, if asked, of those whose caller went away."""
        now = self._clock()
        for pool in self._pools.values():
            for segment in pool.overdue(now):
                pool.drop(segment)
                self._finish(segment, DeadlinePassed("decode"))
            if cancelled:
                for segment in [segment for segment in pool.running if segment.cancelled]:
                    pool.drop(segment)
                    self._finish(segment, CallCancelled("the caller went away"))

    def step(self) -> bool:
        """Run one step of the next pool and answer the segments that end; False if there is no row."""
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
        for segment in ended:
            self._answer(segment, now)
        return True

    def fail(self, segments: Sequence[Segment]) -> None:
        """Answer all its segments and these with a fault, for the exception being handled, and forget all rows."""
        self._pools.clear()
        self._fail(list(dict.fromkeys((*self._held, *segments))), "a worker failed; all its pools start anew")

    def _start(self, key: PoolKey, segments: list[Segment]) -> None:
        began = self._clock()
        try:
            encoded = self._encode(key, segments)
        except Exception:
            if len(segments) == 1:
                self._fail(segments, "encoding failed")
                return
            # One by one, so that only the guilty one fails.
            _log.warning("encoding %d segments together failed; trying each alone", len(segments), exc_info=True)
            for segment in segments:
                self._start(key, [segment])
            return
        now = self._clock()
        if (attention := encoded.get(ENCODER_ATTENTION)) is not None:
            for row, segment in enumerate(segments):
                # A copy, so that nobody holds the rows of others.
                segment.encoder_attention = attention[row].copy() if segment.request.keep_encoder_attention else None
        for segment in segments:
            self._observer.queued(began - segment.submitted)
            if self._decoders[key.model].facts.pixels is None:
                self._observer.tokens("source", len(segment.request.source))
        try:
            pool = self._pools.get(key)
            if pool is None:
                self._forget_idle_pools()
                capacity = self._settings.pool_rows(key.width)
                pool = Pool(self._decoders[key.model], capacity=capacity, width=key.width, shortlist=key.shortlist)
                self._pools[key] = pool
            pool.admit(segments, encoded, now=now, encode_seconds=now - began)
        except Exception:
            self._fail_pool(key, "admission failed", also=segments)

    def _forget_idle_pools(self) -> None:
        """Give back the buffers of pools that nobody has used for longest, so that memory follows what is in use."""
        idle = [key for key, pool in self._pools.items() if not pool.running]
        for key in idle[: max(len(idle) - _IDLE_POOLS, 0)]:
            del self._pools[key]

    def _encode(self, key: PoolKey, segments: Sequence[Segment]) -> Tensors:
        decoder = self._decoders[key.model]
        if decoder.facts.pixels is not None:
            pixels: Pixels = np.stack([segment.request.source for segment in segments], dtype=np.uint8)
            length = np.full(len(segments), key.width, dtype=np.int64)
            wanted = any(segment.request.keep_encoder_attention for segment in segments)
            return decoder.encode(pixels, length, encoder_attention=wanted)
        source = np.full((len(segments), key.width), decoder.facts.pad_id, dtype=np.int64)
        length = np.array([len(segment.request.source) for segment in segments], dtype=np.int64)
        for row, segment in enumerate(segments):
            source[row, : length[row]] = segment.request.source
        return decoder.encode(source, length)

    def _answer(self, segment: Segment, now: float) -> None:
        if segment.hypotheses is None:
            fault = EngineFault(_fault_id())
            _log.error(
                "fault %s: scores or attention held NaN or infinity; model %s, request %s",
                fault.fault_id,
                "/".join(segment.pool.model),
                segment.request.context.request_id,
            )
            self._finish(segment, fault)
            return
        self._observer.tokens("target", len(segment.hypotheses[0].tokens))
        timing = Timing(
            queue_seconds=max(segment.admitted - segment.encode_seconds - segment.submitted, 0.0),
            encode_seconds=segment.encode_seconds,
            decode_seconds=now - segment.admitted,
            steps=segment.steps,
            mean_batch_rows=segment.mean_rows,
        )
        result = DecodeResult(hypotheses=segment.hypotheses, timing=timing, encoder_attention=segment.encoder_attention)
        self._finish(segment, result)

    def _finish(self, segment: Segment, outcome: DecodeResult | RegardError) -> None:
        self._held.pop(segment, None)
        self._deliver(segment, outcome)

    def _fail_pool(self, key: PoolKey, what: str, *, also: Sequence[Segment] = ()) -> None:
        pool = self._pools.pop(key, None)
        segments = pool.running if pool is not None else []
        self._fail(list(dict.fromkeys((*segments, *also))), f"{what}; its pool starts anew")

    def _fail(self, segments: Sequence[Segment], what: str) -> None:
        """Log the exception that is being handled under an id, and answer segments with it."""
        fault_id = _fault_id()
        _log.exception(
            "fault %s: %s; requests %s",
            fault_id,
            what,
            ", ".join(segment.request.context.request_id for segment in segments),
        )
        for segment in segments:
            self._finish(segment, EngineFault(fault_id))


def _fault_id() -> str:
    return uuid.uuid4().hex[:16]

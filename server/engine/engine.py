"""Takes segments from any thread, has worker threads decode them, and answers each exactly once.

It knows neither texts and protobuf nor asyncio and what runs the models.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from regard.contract.names import ModelKey
from regard.server.engine.decoder import Decoder
from regard.server.engine.dispatch import Dispatch, WorkerSlot
from regard.server.engine.engine_settings import EngineSettings
from regard.server.engine.request_check import check_request
from regard.server.engine.segment import PoolKey, Segment
from regard.server.engine.worker import Worker
from regard.server.errors import InvalidRequest, NotServing, RegardError
from regard.server.observer import EngineObserver
from regard.server.request import DecodeRequest, DecodeResult
from regard.server.search.searches import slots_needed

__all__ = ["Engine", "EngineObserver", "EngineSettings", "Outcome", "Ticket"]

Outcome = DecodeResult | RegardError

_RETRY_UNKNOWN_MODEL = 1.0
# How long `stop` waits, after the grace, for a step that cannot be interrupted.
_LAST_STEP_SECONDS = 5.0


class Ticket:
    """The segments of one call, to cancel them by."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = tuple(segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments."""
        return self._segments


class Engine:
    """Decodes segments of several models on a fixed number of worker threads.

    Thread-safe. Between any two steps a worker takes waiting segments up to its share and its room, encodes them, and
    drops cancelled and expired ones; its pools are stepped round-robin.
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
        self._clock = clock
        self._dispatch = Dispatch(settings, observer, clock)
        self._workers = [
            Worker(self._models, settings, observer, clock, self._dispatch.finish) for _ in range(settings.workers)
        ]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the worker threads and take requests. Call it once."""
        slots = self._dispatch.open(self._workers)
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"decode-{number}", daemon=True)
            for number, slot in enumerate(slots)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, slot: WorkerSlot) -> None:
        while self._dispatch.iterate(slot):
            pass

    def submit(
        self, key: ModelKey, requests: Sequence[DecodeRequest], on_done: Callable[[int, Outcome], None]
    ) -> Ticket:
        """Let all of these segments wait for decoding, or none.

        Args:
            key: a model that the engine was made with.
            requests: segments of one call.
            on_done: takes the place in `requests` and the outcome, once for each, on a worker thread or the one that
                stops the engine; it must be quick.

        Raises:
            InvalidRequest: a request is beyond what the model or the engine can take.
            QueueFull: too many segments are waiting.
            NotServing: the engine has not started or is stopping, or has no such model.
        """
        decoder = self._models.get(key)
        if decoder is None:
            raise NotServing(f"model {key.name} version {key.version} is not loaded", _RETRY_UNKNOWN_MODEL)
        for place, request in enumerate(requests):
            try:
                check_request(request, decoder.facts, self._settings)
            except InvalidRequest as error:
                raise InvalidRequest(f"segments[{place}].{error.field}", error.description) from error
        now = self._clock()
        segments = [
            Segment(
                pool=PoolKey(key, self._width(decoder, request), decoder.facts.shortlist(request)),
                rows=slots_needed(request),
                request=request,
                deliver=functools.partial(on_done, place),
                submitted=now,
            )
            for place, request in enumerate(requests)
        ]
        self._dispatch.admit(segments)
        return Ticket(segments)

    def _width(self, decoder: Decoder, request: DecodeRequest) -> int:
        positions = decoder.facts.positions(request.source)
        # All pictures have the same number of positions, and no padding.
        return self._settings.width(positions) if decoder.facts.pixels is None else positions

    def cancel(self, ticket: Ticket) -> None:
        """Give up the segments of a call that are not answered yet; their rows are freed before the next step."""
        self._dispatch.cancel(ticket.segments)

    def stop(self, grace: float) -> None:
        """Refuse new segments, finish the old ones, and after `grace` seconds give up what is left with NotServing."""
        end = time.monotonic() + grace
        self._dispatch.close()
        self._join(end)
        self._dispatch.abort()
        self._join(time.monotonic() + _LAST_STEP_SECONDS)

    def _join(self, end: float) -> None:
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0.0))

    @property
    def waiting(self) -> int:
        """Segments that wait."""
        return self._dispatch.waiting

    @property
    def running(self) -> int:
        """Segments that are being encoded or have rows."""
        return self._dispatch.running

    def alive(self) -> bool:
        """Tell whether every worker thread lives and none has been stuck for `stall_seconds`."""
        return (
            bool(self._threads) and all(thread.is_alive() for thread in self._threads) and not self._dispatch.stalled()
        )

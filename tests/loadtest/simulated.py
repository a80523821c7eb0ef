"""A load on a clock of its own: a server whose answers take what a test says, and time that passes when nobody waits.

It knows neither Locust nor gRPC; everything happens in one thread and in no real time.
"""

import heapq
from collections.abc import Callable
from itertools import count

from regard.loadtest.load.corpus import Payload
from regard.loadtest.load.load import Ended, Load, Seen
from regard.loadtest.load.plan import Plan
from regard.v1.translation_pb2 import TranslateResponse, TranslationResult

MILLISECOND = 1_000_000
REPLY = TranslateResponse(results=[TranslationResult(text="hola")]).SerializeToString()

# From the time of sending, in nanoseconds, to the time of the answer and its status; None answers never.
Behaviour = Callable[[int], tuple[int, str] | None]


class SimulatedCall:
    """A call whose end is known to the simulation."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Ended], None]] = []
        self.cancelled = False

    def add_done_callback(self, callback: Callable[[Ended], None]) -> None:
        self.callbacks.append(callback)

    def cancel(self) -> bool:
        self.cancelled = True
        self.finish("CANCELLED")
        return True

    def finish(self, code: str) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(Ended(code, "", REPLY if code == "OK" else b""))


class Simulation:
    """Runs a plan against a behaviour.

    Args:
        plan: an open loop.
        behaviour: of the server.
        stall: a span of time in which the generator itself does not run.
    """

    def __init__(self, plan: Plan, behaviour: Behaviour, *, stall: tuple[int, int] = (0, 0)) -> None:
        self.calls: list[SimulatedCall] = []
        self.seen: list[Seen] = []
        self._now = 0
        self._stall = stall
        self._behaviour = behaviour
        self._ends: list[tuple[int, int, SimulatedCall, str]] = []
        self._order = count()
        self.load = Load(
            plan=plan,
            worker=0,
            send=self._send,
            clock_ns=lambda: self._now,
            sleep=self._sleep,
            observe=self.seen.append,
        )

    def run(self) -> Load:
        self.load.start_at(0)
        self.load.send_all()
        self.load.drain()
        return self.load

    def _send(self, number: int, payload: Payload, seconds: float) -> SimulatedCall:
        assert payload.body
        call = SimulatedCall()
        self.calls.append(call)
        answer = self._behaviour(self._now)
        if answer is not None:
            heapq.heappush(self._ends, (answer[0], next(self._order), call, answer[1]))
        return call

    def _sleep(self, seconds: float) -> None:
        # Even a mere yield takes a moment.
        until = self._now + max(round(seconds * 1e9), 50_000)
        start, end = self._stall
        if self._now < end and until > start:
            until = max(until, end)
        while self._ends and self._ends[0][0] <= until:
            at, _, call, code = heapq.heappop(self._ends)
            # Nobody sees an answer while the generator stands still.
            self._now = max(self._now, end if start <= at < end else at)
            call.finish(code)
        self._now = max(self._now, until)

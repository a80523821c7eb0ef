"""Sends one worker's requests: at their due times in an open loop, one after another for each caller in a closed one.

It does not know Locust, gevent or gRPC: calls, clock and sleep are handed in, so that a test can run it on a clock of
its own. Everything runs in one thread, or in greenlets of one thread, where Locust replaces `threading.Event`.
"""

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import NamedTuple, Protocol

from regard.loadtest.load.answers import NOTHING, Answer, read_answer
from regard.loadtest.load.corpus import Corpus, Payload
from regard.loadtest.load.plan import Plan
from regard.loadtest.load.recorder import FAILED_TEXTS, INCOMPLETE, OK, UNREADABLE, Recorder

NANOSECONDS = 1_000_000_000
# Payloads of a closed loop before they repeat; an open loop draws as many as it needs.
DRAWN = 20_000
# Below this a sleep is a mere yield, since timers are not finer.
FINEST_SLEEP = 500_000
POLL_SECONDS = 0.01


class Pending(Protocol):
    """A call on its way."""

    def add_done_callback(self, callback: Callable[["Ended"], None]) -> None:
        """Have the call handed over once it has ended."""
        ...

    def cancel(self) -> bool:
        """Give the call up."""
        ...


class Ended(NamedTuple):
    """How a call ended: a status by name, what the server said about it, and the reply if the status is OK."""

    code: str
    details: str
    body: bytes


class Seen(NamedTuple):
    """What an observer is told of a request."""

    traffic: str
    milliseconds: float  # from the time it was due
    reply_bytes: int
    code: str
    details: str


# Sends a request with a timeout in seconds. The first argument counts requests, to spread them on channels.
Send = Callable[[int, Payload, float], Pending]


class Load:
    """The load of one worker.

    Args:
        plan: what to send.
        worker: which worker this is.
        send: how.
        clock_ns: a monotonic clock.
        sleep: waits for seconds and lets answers come in; 0 only lets them come in.
        observe: is told of every ended request.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        worker: int,
        send: Send,
        clock_ns: Callable[[], int],
        sleep: Callable[[float], None],
        observe: Callable[[Seen], None],
    ) -> None:
        self.plan = plan
        self.worker = worker
        self.recorder = Recorder(worker=worker, window_ns=window_of(plan))
        self._send = send
        self._clock_ns = clock_ns
        self._sleep = sleep
        self._observe = observe
        self._corpus: Corpus = plan.corpus()
        self._schedule: list[int] = plan.schedule(worker).tolist() if plan.loop == "open" else []
        count = len(self._schedule) if plan.loop == "open" else DRAWN
        self._payloads: list[int] = self._corpus.draw(count=count, seed=plan.seed, worker=worker).tolist()
        self._drawn = 0
        self._start_ns = 0
        self._pending: dict[int, Pending] = {}

    def now(self) -> int:
        """Nanoseconds after the start of the load."""
        return self._clock_ns() - self._start_ns

    def start_at(self, clock_ns: int) -> None:
        """Name the moment, on the clock, from which all times count; it may lie ahead."""
        self._start_ns = clock_ns

    def send_all(self) -> None:
        """Open loop: send every request when it is due; one that is late is sent at once and never left out."""
        for number, due_ns in enumerate(self._schedule):
            self._sleep_until(due_ns)
            self._fire(self._payloads[number], due_ns)

    def keep_calling(self) -> None:
        """Closed loop: one caller, who sends the next request when the last is answered."""
        answered = Event()
        self._sleep_until(0)
        while self.now() < self.plan.seconds * NANOSECONDS:
            answered.clear()
            payload = self._payloads[self._drawn % len(self._payloads)]
            self._drawn += 1
            self._fire(payload, self.now(), answered.set)
            answered.wait()

    def drain(self) -> None:
        """Wait until every request is answered or past its deadline, then record the rest as unanswered."""
        self._sleep_until(round(self.plan.seconds * NANOSECONDS))
        give_up = self.now() + round(self.plan.deadline * NANOSECONDS)
        while self.recorder.in_flight and self.now() < give_up:
            self._sleep(POLL_SECONDS)
        self.abandon()

    def abandon(self) -> None:
        """Record everything in flight as unanswered and cancel it."""
        self.recorder.censor(at_ns=self.now())
        for pending in list(self._pending.values()):
            pending.cancel()
        self._pending.clear()

    def _fire(self, payload: int, due_ns: int, on_end: Callable[[], None] = lambda: None) -> None:
        request = self._corpus.payloads[payload]
        number = self.recorder.begin(traffic=request.name, payload=payload, due_ns=due_ns, sent_ns=self.now())
        pending = self._send(number, request, self.plan.deadline)
        self._pending[number] = pending
        pending.add_done_callback(partial(self._end, number, request, due_ns, on_end))

    def _end(self, number: int, request: Payload, due_ns: int, on_end: Callable[[], None], ended: Ended) -> None:
        end_ns = self.now()
        self._pending.pop(number, None)
        code, answer = (ended.code, NOTHING) if ended.code != OK else _judge(request, ended.body)
        if self.recorder.end(number, end_ns=end_ns, code=code, answer=answer):
            details = answer.fault or ended.details
            self._observe(Seen(request.name, (end_ns - due_ns) / 1e6, answer.size, code, details))
        on_end()

    def _sleep_until(self, due_ns: int) -> None:
        self._sleep(0)
        while (left := due_ns - self.now()) > 0:
            self._sleep(left / NANOSECONDS if left > FINEST_SLEEP else 0)


def _judge(request: Payload, body: bytes) -> tuple[str, Answer]:
    """What a reply that came well is to be called, and what is in it."""
    answer = read_answer(body, method=request.method, attention=request.attention)
    if answer is None:
        return UNREADABLE, NOTHING
    if answer.failed_texts:
        return FAILED_TEXTS, answer
    return (INCOMPLETE if answer.fault else OK), answer


def window_of(plan: Plan) -> tuple[int, int]:
    """Start and end of the measured part, in nanoseconds after the start of the load."""
    return round(plan.warmup * NANOSECONDS), round(plan.seconds * NANOSECONDS)

"""Says whether a run may be believed: VALID, WARN or INVALID, with the reasons.

It judges the measurement and not the server: a slow or failing server can be measured well.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

# Send lag: milliseconds that are allowed anyway, and the share of the median latency that is allowed besides.
LAG_WARN = (2.0, 0.05)
LAG_INVALID = (10.0, 0.10)
# Share of one core that a worker takes.
PROCESSOR_WARN, PROCESSOR_INVALID = 0.6, 0.8
# 99th percentile of how late a sleeping greenlet wakes, milliseconds.
LOOP_LAG_WARN, LOOP_LAG_INVALID = 5.0, 50.0
# Little's law: relative difference.
LITTLE_WARN, LITTLE_INVALID = 0.03, 0.30
# Growth of the calls in flight from the first to the last third of the run, beyond which a server does not keep up.
GROWTH_WARN = 0.5
# Part of the median latency that is the generator's and the transport's own.
FLOOR_WARN = 0.10
FEWEST = 20

KEEPS_UP = "the server keeps up"


class Level(IntEnum):
    """The worst check decides."""

    VALID = 0
    WARN = 1
    INVALID = 2


class Check(NamedTuple):
    """One question, its answer and what follows from it."""

    level: Level
    question: str
    found: str
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of how a run was measured.

    Attributes:
        planned: requests that were due; None in a closed loop.
        sent: requests that workers say they sent.
        recorded: requests that there are records of.
        measured: good answers that the latency figures rest on.
        lag_p99_ms: by how much requests were sent too late.
        latency_p50_ms: from the time they were due; None if there are too few.
        processor_share: of one core, the busiest worker's.
        loop_lag_p99_ms: the worst worker's.
        in_flight: calls in flight, as the workers integrated it during the run.
        little: the same from the rate and time of the records.
        little_noise: relative difference that the ends of the window explain.
        early_in_flight: in the first third of the window.
        late_in_flight: in the last third.
        floor_p50_ms: the same load against a server that does nothing; None if it was not measured.
        thread_pool: threads that gevent may use, the smallest of all workers.
    """

    planned: int | None
    sent: int
    recorded: int
    measured: int
    lag_p99_ms: float
    latency_p50_ms: float | None
    processor_share: float
    loop_lag_p99_ms: float
    in_flight: float
    little: float
    little_noise: float
    early_in_flight: float
    late_in_flight: float
    floor_p50_ms: float | None
    thread_pool: int


class Verdict(NamedTuple):
    """The level of the worst check, and all checks."""

    level: Level
    checks: tuple[Check, ...]

    @property
    def overloaded(self) -> bool:
        """Whether the server fell further behind as long as the load lasted, so that latency has no percentiles."""
        return any(check.question == KEEPS_UP and check.level for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run is not simply valid."""
        return tuple(f"{check.question}: {check.found}, limit {check.limit}" for check in self.checks if check.level)


def judge(facts: Facts) -> Verdict:
    """Check the facts one by one."""
    checks = [_all_sent(facts), _all_recorded(facts), _enough(facts), _pool(facts), _lag(facts), _processor(facts)]
    checks += [_loop_lag(facts), _little(facts), _steady(facts), _floor(facts)]
    return Verdict(max(check.level for check in checks), tuple(checks))


def _all_sent(facts: Facts) -> Check:
    question = "every planned request was sent"
    if facts.planned is None:
        return Check(Level.VALID, question, f"{facts.sent} sent", "closed loop, nothing planned")
    level = Level.VALID if facts.sent == facts.planned else Level.INVALID
    return Check(level, question, f"{facts.sent} of {facts.planned}", "all")


def _all_recorded(facts: Facts) -> Check:
    level = Level.VALID if facts.recorded == facts.sent else Level.INVALID
    return Check(level, "every sent request is recorded", f"{facts.recorded} of {facts.sent}", "all")


def _enough(facts: Facts) -> Check:
    if not facts.measured:
        return Check(Level.INVALID, "there are good answers to measure", "none", f"{FEWEST}")
    level = Level.VALID if facts.measured >= FEWEST else Level.WARN
    return Check(level, "there are good answers to measure", f"{facts.measured}", f"{FEWEST}")


def _pool(facts: Facts) -> Check:
    level = Level.VALID if facts.thread_pool >= 128 else Level.INVALID
    return Check(level, "no answer waits for a thread of gevent", f"{facts.thread_pool} threads", "128 threads")


def _lag(facts: Facts) -> Check:
    median = facts.latency_p50_ms or 0.0
    warn, invalid = (max(least, share * median) for least, share in (LAG_WARN, LAG_INVALID))
    level = _graded(facts.lag_p99_ms, warn, invalid)
    return Check(level, "requests are sent on time, p99", f"{facts.lag_p99_ms:.2f} ms late", f"{warn:.1f} ms")


def _processor(facts: Facts) -> Check:
    level = _graded(facts.processor_share, PROCESSOR_WARN, PROCESSOR_INVALID)
    found, limit = f"{facts.processor_share:.0%} of a core", f"{PROCESSOR_WARN:.0%}"
    return Check(level, "a generator has processor to spare", found, limit)


def _loop_lag(facts: Facts) -> Check:
    level = _graded(facts.loop_lag_p99_ms, LOOP_LAG_WARN, LOOP_LAG_INVALID)
    return Check(
        level, "the generator's loop wakes on time, p99", f"{facts.loop_lag_p99_ms:.2f} ms", f"{LOOP_LAG_WARN} ms"
    )


def _little(facts: Facts) -> Check:
    difference = abs(facts.in_flight - facts.little) / max(facts.in_flight, facts.little, 1e-12)
    level = _graded(difference, max(LITTLE_WARN, facts.little_noise), max(LITTLE_INVALID, 3 * facts.little_noise))
    found = f"{facts.in_flight:.3f} counted, {facts.little:.3f} from rate and time"
    limit = f"{max(LITTLE_WARN, facts.little_noise):.0%} apart"
    return Check(level, "calls in flight = rate x time (Little's law)", found, limit)


def _steady(facts: Facts) -> Check:
    grown = facts.late_in_flight > facts.early_in_flight * (1 + GROWTH_WARN) + 2
    found = f"{facts.early_in_flight:.1f} calls in flight early, {facts.late_in_flight:.1f} late"
    limit = f"{GROWTH_WARN:.0%} growth; beyond, latency grows with the length of the run"
    return Check(Level.WARN if grown else Level.VALID, KEEPS_UP, found, limit)


def _floor(facts: Facts) -> Check:
    question = "the generator's own share of the median latency is small"
    if facts.floor_p50_ms is None or not facts.latency_p50_ms:
        return Check(Level.VALID, question, "not measured", f"{FLOOR_WARN:.0%}")
    share = facts.floor_p50_ms / facts.latency_p50_ms
    found = f"{facts.floor_p50_ms:.2f} ms against a server that does nothing, {share:.0%}"
    return Check(Level.WARN if share > FLOOR_WARN else Level.VALID, question, found, f"{FLOOR_WARN:.0%}")


def _graded(value: float, warn: float, invalid: float) -> Level:
    if value > invalid:
        return Level.INVALID
    return Level.WARN if value > warn else Level.VALID

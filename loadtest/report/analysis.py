"""Turns records into figures: percentiles with their intervals, rates, calls in flight.

It does not know how records came about, nor which figures are good ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.loadtest.load.recorder import OK, Record

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PERCENTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Records as columns, in order of the times at which they were due; times in nanoseconds."""

    traffic: NDArray[np.str_]
    payload: NDArray[np.int64]
    due: NDArray[np.int64]
    sent: NDArray[np.int64]
    end: NDArray[np.int64]
    code: NDArray[np.str_]
    digest: NDArray[np.str_]
    tokens: NDArray[np.int64]
    queue: Floats  # seconds, and so are the next two
    encode: Floats
    decode: Floats
    rows: Floats

    def __len__(self) -> int:
        return len(self.due)

    @property
    def ok(self) -> Mask:
        """Which requests were answered as they should be."""
        return self.code == OK

    @property
    def latency(self) -> Floats:
        """Seconds from the time a request was due to its answer."""
        return (self.end - self.due) / 1e9

    @property
    def service(self) -> Floats:
        """Seconds from the time a request was sent to its answer."""
        return (self.end - self.sent) / 1e9

    @property
    def lag(self) -> Floats:
        """Seconds by which a request was sent too late."""
        return (self.sent - self.due) / 1e9

    @property
    def rest(self) -> Floats:
        """Seconds of the latency that neither the generator's lag nor the server's account explains."""
        return np.maximum(self.latency - self.lag - self.queue - self.encode - self.decode, 0.0)

    def select(self, mask: Mask) -> "Table":
        """The rows where the mask is true."""
        columns: dict[str, Any] = {name: getattr(self, name)[mask] for name in self.__slots__}
        return Table(**columns)

    def due_within(self, start_ns: int, end_ns: int) -> "Table":
        """The requests that were due in a window."""
        return self.select((self.due >= start_ns) & (self.due < end_ns))


def table(records: Sequence[Record]) -> Table:
    """Make columns of records."""
    ordered = sorted(records, key=lambda record: record.due_ns)
    return Table(
        traffic=np.array([record.traffic for record in ordered], dtype=np.str_),
        payload=np.array([record.payload for record in ordered], dtype=np.int64),
        due=np.array([record.due_ns for record in ordered], dtype=np.int64),
        sent=np.array([record.sent_ns for record in ordered], dtype=np.int64),
        end=np.array([record.end_ns for record in ordered], dtype=np.int64),
        code=np.array([record.code for record in ordered], dtype=np.str_),
        digest=np.array([record.digest for record in ordered], dtype=np.str_),
        tokens=np.array([record.target_tokens for record in ordered], dtype=np.int64),
        queue=np.array([record.queue_seconds for record in ordered], dtype=np.float64),
        encode=np.array([record.encode_seconds for record in ordered], dtype=np.float64),
        decode=np.array([record.decode_seconds for record in ordered], dtype=np.float64),
        rows=np.array([record.batch_rows for record in ordered], dtype=np.float64),
    )


class Percentile(NamedTuple):
    """A percentile and the order statistics that enclose it with 95 % confidence, if requests were independent."""

    value: float
    low: float
    high: float


def needed(p: float) -> int:
    """Values without which a percentile is not stated: ten beyond it."""
    return math.ceil(round(10 / (1 - p), 6))


def percentile(values: Floats, p: float) -> Percentile | None:
    """The smallest value that at least a share p of the values do not exceed; None if there are too few to say."""
    count = len(values)
    if count < needed(p):
        return None
    ordered = np.sort(values)
    low, high = order_statistics(count, p)
    return Percentile(float(ordered[math.ceil(round(p * count, 9)) - 1]), float(ordered[low]), float(ordered[high]))


def order_statistics(count: int, p: float, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Ranks, from 0, of two ordered values that enclose the true percentile with at least this confidence.

    Distribution-free: the number of values below the true percentile is binomial.
    """
    tail = (1 - confidence) / 2
    ranks = np.arange(count + 1)
    logs = np.cumsum(np.log(np.maximum(ranks, 1)))
    mass = np.exp(logs[-1] - logs - logs[::-1] + ranks * math.log(p) + ranks[::-1] * math.log1p(-p))
    below = np.cumsum(mass)
    # below[k] is the chance that at most k values lie below the percentile.
    low = int(np.searchsorted(below, tail, side="right"))
    high = int(np.searchsorted(below, 1 - tail, side="left"))
    return max(low - 1, 0), min(high, count - 1)


def spread(seconds: Floats) -> dict[str, Any]:
    """Number, mean, extremes and percentiles in milliseconds; a percentile that too few values support is null."""
    if not len(seconds):
        return {"n": 0, "mean_ms": None, "min_ms": None, "max_ms": None, "percentiles": {}}
    milliseconds = seconds * 1e3
    percentiles: dict[str, Any] = {}
    for p in PERCENTILES:
        found = percentile(milliseconds, p)
        percentiles[name_of(p)] = None if found is None else {k: round(v, 4) for k, v in found._asdict().items()}
    return {
        "n": len(seconds),
        "mean_ms": round(float(milliseconds.mean()), 4),
        "min_ms": round(float(milliseconds.min()), 4),
        "max_ms": round(float(milliseconds.max()), 4),
        "percentiles": percentiles,
    }


def name_of(p: float) -> str:
    """0.999 is p99.9."""
    return f"p{round(p * 100, 4):g}"


def completed_rate(rows: Table, start_ns: int, end_ns: int) -> float:
    """Good answers a second, counting those that arrived within the window, whenever they were sent."""
    return float(np.count_nonzero(_ended_within(rows, start_ns, end_ns))) / ((end_ns - start_ns) / 1e9)


def token_rate(rows: Table, start_ns: int, end_ns: int) -> float:
    """Target tokens a second in the answers that arrived within the window."""
    return float(rows.tokens[_ended_within(rows, start_ns, end_ns)].sum()) / ((end_ns - start_ns) / 1e9)


def mean_in_flight(rows: Table, start_ns: int, end_ns: int) -> float:
    """Calls on their way, averaged over the window."""
    inside = np.minimum(rows.end, end_ns) - np.maximum(rows.sent, start_ns)
    return float(np.maximum(inside, 0).sum()) / (end_ns - start_ns)


def in_flight_at(rows: Table, moments_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Calls on their way at each moment."""
    sent, end = np.sort(rows.sent), np.sort(rows.end)
    return np.searchsorted(sent, moments_ns, side="right") - np.searchsorted(end, moments_ns, side="right")


def differing_answers(rows: Table) -> int:
    """Payloads that got more than one answer: what a model says must not depend on load or company."""
    answered = rows.select(rows.ok)
    pairs = set(zip(answered.payload.tolist(), answered.digest.tolist(), strict=True))
    return len(pairs) - len(set(answered.payload.tolist()))


def _ended_within(rows: Table, start_ns: int, end_ns: int) -> Mask:
    return rows.ok & (rows.end >= start_ns) & (rows.end < end_ns)

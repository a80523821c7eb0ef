"""Watches the generator itself: how late its loop wakes, how much processor it takes, how long collections stop it.

It does not know the load, and reads no clock: what is measured is handed in.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np


class Sample(NamedTuple):
    """The state of a generator at one moment."""

    at_ns: int  # after the start of the load
    processor_ns: int  # used by the process so far


class Health(NamedTuple):
    """One worker's health during the measured window."""

    worker: int
    processor_share: float  # of one core
    loop_lag_p50_ms: float
    loop_lag_p99_ms: float
    loop_lag_max_ms: float
    collection_ms: float  # all pauses of the garbage collector
    resident_mib: float
    thread_pool: int
    sent: int
    in_flight_ns: int  # calls in flight, integrated over the window
    examples: dict[str, str]  # status code to the first message that came with it
    series: tuple[tuple[float, float, float], ...]  # seconds, share of one core since the last, worst loop lag in ms


class Gauges:
    """Collects what a worker observes of itself."""

    def __init__(self, *, window_ns: tuple[int, int]) -> None:
        self._window = window_ns
        self._lags: list[tuple[int, int]] = []
        self._samples: list[Sample] = []
        self._collection_ns = 0
        self._examples: dict[str, str] = {}

    def loop_lag(self, *, at_ns: int, lag_ns: int) -> None:
        """A greenlet that wanted to wake woke so much later."""
        self._lags.append((at_ns, lag_ns))

    def sample(self, sample: Sample) -> None:
        """The state about once a second."""
        self._samples.append(sample)

    def collection(self, pause_ns: int) -> None:
        """The garbage collector stopped the process for so long."""
        self._collection_ns += pause_ns

    def example(self, *, code: str, details: str) -> None:
        """What the server said with a status code; the first is kept."""
        self._examples.setdefault(code, details[:300])

    def health(self, *, worker: int, sent: int, in_flight_ns: int, resident_bytes: int, thread_pool: int) -> Health:
        """Sum up the measured window."""
        start, end = self._window
        lags = np.array([lag for at, lag in self._lags if start <= at <= end] or [0], dtype=np.float64) / 1e6
        inside = [sample for sample in self._samples if start <= sample.at_ns <= end]
        return Health(
            worker=worker,
            processor_share=_share(inside[0], inside[-1]) if len(inside) > 1 else 0.0,
            loop_lag_p50_ms=float(np.quantile(lags, 0.5)),
            loop_lag_p99_ms=float(np.quantile(lags, 0.99)),
            loop_lag_max_ms=float(lags.max()),
            collection_ms=self._collection_ns / 1e6,
            resident_mib=resident_bytes / 2**20,
            thread_pool=thread_pool,
            sent=sent,
            in_flight_ns=in_flight_ns,
            examples=dict(self._examples),
            series=tuple(self._series()),
        )

    def _series(self) -> list[tuple[float, float, float]]:
        rows: list[tuple[float, float, float]] = []
        for before, after in zip(self._samples, self._samples[1:], strict=False):
            worst = max((lag for at, lag in self._lags if before.at_ns < at <= after.at_ns), default=0)
            rows.append((after.at_ns / 1e9, _share(before, after), worst / 1e6))
        return rows


def _share(before: Sample, after: Sample) -> float:
    elapsed = after.at_ns - before.at_ns
    return (after.processor_ns - before.processor_ns) / elapsed if elapsed > 0 else 0.0


def write_health(path: Path, healths: Sequence[Health]) -> None:
    """Write as JSON."""
    path.write_text(json.dumps([health._asdict() for health in healths], indent=1) + "\n", encoding="utf-8")


def read_health(path: Path) -> tuple[Health, ...]:
    """Read what `write_health` wrote."""
    values = cast("list[dict[str, Any]]", json.loads(path.read_text(encoding="utf-8")))
    return tuple(Health(**value)._replace(series=tuple(tuple(row) for row in value["series"])) for value in values)

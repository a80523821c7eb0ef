"""Says when requests are due, before the first one is sent.

It does not know what is sent, to whom, or how: no clock is read and nothing waits here.
"""

from random import Random

import numpy as np
from numpy.typing import NDArray

NANOSECONDS = 1_000_000_000

# Nanoseconds after the start of the load, ascending.
Schedule = NDArray[np.int64]


def poisson(*, rate: float, seconds: float, seed: int, worker: int = 0, workers: int = 1) -> Schedule:
    """Arrivals of one worker's share of a Poisson stream.

    The sum of independent Poisson streams is one, so the workers together send `rate`. The same arguments give the same
    schedule, and its length is the number of requests that must be sent.

    Args:
        rate: requests per second of all workers together.
        seconds: how long arrivals go on.
        seed: of the run.
        worker: which of the workers, from 0.
        workers: how many share the load.
    """
    _check(rate=rate, seconds=seconds, worker=worker, workers=workers)
    random = Random(f"arrivals/{seed}/{worker}")  # noqa: S311 - reproducible, not secret
    share = rate / workers
    due: list[int] = []
    at = random.expovariate(share)
    while at < seconds:
        due.append(round(at * NANOSECONDS))
        at += random.expovariate(share)
    return np.array(due, dtype=np.int64)


def constant(*, rate: float, seconds: float, worker: int = 0, workers: int = 1) -> Schedule:
    """Arrivals of one worker at equal distances; the workers take turns."""
    _check(rate=rate, seconds=seconds, worker=worker, workers=workers)
    due = np.arange(worker, int(seconds * rate), workers) / rate
    return np.rint(due * NANOSECONDS).astype(np.int64)


def _check(*, rate: float, seconds: float, worker: int, workers: int) -> None:
    if not rate > 0 or not seconds > 0:
        raise ValueError(f"rate and duration must be above 0, not {rate} and {seconds}")
    if not 0 <= worker < workers:
        raise ValueError(f"worker {worker} of {workers} does not exist")

"""Arrival times are known before the load starts, are those of the rate, and share out over workers without a trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.loadtest.load.arrivals import constant, poisson

RATES = st.floats(min_value=1, max_value=400)
SECONDS = st.floats(min_value=0.5, max_value=5)
SEEDS = st.integers(min_value=0, max_value=10_000)


@given(rate=RATES, seconds=SECONDS, seed=SEEDS)
def test_same_arguments_give_the_same_schedule(rate: float, seconds: float, seed: int) -> None:
    first = poisson(rate=rate, seconds=seconds, seed=seed)
    assert np.array_equal(first, poisson(rate=rate, seconds=seconds, seed=seed))


@given(rate=RATES, seconds=SECONDS, seed=SEEDS)
def test_arrivals_ascend_within_the_time(rate: float, seconds: float, seed: int) -> None:
    due = poisson(rate=rate, seconds=seconds, seed=seed)
    assert np.all(np.diff(due) >= 0)
    assert not len(due) or (due[0] >= 0 and due[-1] <= seconds * 1e9)


@given(seed=SEEDS)
def test_another_seed_gives_another_schedule(seed: int) -> None:
    first, second = (poisson(rate=50, seconds=2, seed=value) for value in (seed, seed + 1))
    assert not np.array_equal(first, second)


@settings(max_examples=20)
@given(seed=SEEDS, workers=st.integers(min_value=1, max_value=5))
def test_workers_together_are_one_poisson_stream_of_the_rate(seed: int, workers: int) -> None:
    rate, seconds = 400.0, 20.0
    shares = [poisson(rate=rate, seconds=seconds, seed=seed, worker=w, workers=workers) for w in range(workers)]
    gaps = np.diff(np.sort(np.concatenate(shares))) / 1e9
    expected = rate * seconds
    # Six standard deviations; and gaps of a Poisson stream spread as widely as they are long.
    assert abs(len(gaps) - expected) < 6 * expected**0.5
    assert abs(gaps.std() / gaps.mean() - 1) < 0.1


def test_workers_do_not_send_at_the_same_times() -> None:
    first, second = (poisson(rate=100, seconds=2, seed=1, worker=worker, workers=2) for worker in (0, 1))
    assert not set(first.tolist()) & set(second.tolist())


@given(rate=RATES, seconds=SECONDS, workers=st.integers(min_value=1, max_value=5))
def test_constant_arrivals_of_all_workers_are_evenly_spaced(rate: float, seconds: float, workers: int) -> None:
    shares = [constant(rate=rate, seconds=seconds, worker=worker, workers=workers) for worker in range(workers)]
    merged = np.sort(np.concatenate(shares))
    assert np.array_equal(merged, constant(rate=rate, seconds=seconds))
    assert np.all(np.abs(np.diff(merged) - 1e9 / rate) <= 1)


@pytest.mark.parametrize(("rate", "seconds", "worker"), [(0.0, 1.0, 0), (1.0, 0.0, 0), (1.0, 1.0, 2), (1.0, 1.0, -1)])
def test_impossible_schedules_are_refused(rate: float, seconds: float, worker: int) -> None:
    with pytest.raises(ValueError, match=r"rate|worker"):
        poisson(rate=rate, seconds=seconds, seed=1, worker=worker, workers=2)

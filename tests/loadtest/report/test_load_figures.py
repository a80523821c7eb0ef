"""Figures say what the records say and no more: percentiles with enough behind them, rates over the right window."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loadtest.records import SECOND, health, record, rows_of, steady

from regard.loadtest.load.plan import Plan
from regard.loadtest.load.recorder import CENSORED
from regard.loadtest.report.analysis import (
    completed_rate,
    differing_answers,
    in_flight_at,
    mean_in_flight,
    needed,
    order_statistics,
    percentile,
    spread,
    token_rate,
)
from regard.loadtest.report.summary import summarise


@pytest.mark.parametrize(("p", "count"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000)])
def test_a_percentile_is_stated_from_ten_values_beyond_it_on(p: float, count: int) -> None:
    assert needed(p) == count
    assert percentile(np.arange(count - 1, dtype=np.float64), p) is None
    assert percentile(np.arange(count, dtype=np.float64), p) is not None


@given(st.lists(st.floats(0, 1e6), min_size=20, max_size=300), st.sampled_from([0.5, 0.9, 0.95]))
def test_a_percentile_is_the_smallest_value_that_covers_its_share(values: list[float], p: float) -> None:
    array = np.array(values)
    found = percentile(array, p)
    if found is None:
        return
    assert found.value in values
    assert np.count_nonzero(array <= found.value) >= p * len(values)
    assert np.count_nonzero(array < found.value) < p * len(values)
    assert found.low <= found.value <= found.high


@settings(max_examples=40)
@given(st.integers(20, 400), st.sampled_from([0.5, 0.9, 0.99]))
def test_the_interval_holds_the_true_percentile_as_often_as_it_says(count: int, p: float) -> None:
    low, high = order_statistics(count, p)
    # The true percentile lies between them if at least `low + 1` and at most `high` values are below it.
    covered = sum(comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(low + 1, high + 1))
    missing_below = sum(comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(low + 1)) if low else 0.0
    missing_above = 1 - covered - missing_below if high < count - 1 else 0.0
    assert missing_below <= 0.0251
    assert missing_above <= 0.0251


def test_few_values_have_no_percentiles_but_always_a_maximum() -> None:
    found = spread(np.array([0.001, 0.5]))
    assert set(found["percentiles"].values()) == {None}
    assert found["max_ms"] == 500


def test_no_values_are_no_figures() -> None:
    assert spread(np.array([]))["max_ms"] is None


def test_answers_a_second_count_what_arrived_within_the_window_whenever_it_was_sent() -> None:
    rows = rows_of(record(0, 0.9, latency=0.2), record(1, 1.5), record(2, 1.95, latency=0.2), record(3, 1.6, code="X"))
    assert completed_rate(rows, SECOND, 2 * SECOND) == 2.0
    assert token_rate(rows, SECOND, 2 * SECOND) == 10.0


def test_time_without_load_is_in_no_rate() -> None:
    plan = Plan(address="h:1", rate=10, warmup=1, duration=2)
    rows = rows_of(*steady([1.05 + i / 10 for i in range(20)]), record(20, 2.99, latency=60, code=CENSORED))
    figures = summarise(plan, rows, [health(21)], None).figures
    assert figures["rates"]["answered_per_second"] == pytest.approx(10.0)


def test_failures_never_enter_a_latency() -> None:
    plan = Plan(address="h:1", rate=10, warmup=0, duration=10)
    good = steady([i / 10 for i in range(50)])
    bad = [record(50 + i, i / 10, latency=9.0, code="UNAVAILABLE") for i in range(50)]
    figures = summarise(plan, rows_of(*good, *bad), [health(100)], None).figures
    assert figures["latency"]["all"]["from_intended"]["n"] == 50
    assert figures["latency"]["all"]["from_intended"]["max_ms"] == pytest.approx(10.0)
    assert figures["counts"]["by_code"] == {"OK": 50, "UNAVAILABLE": 50}


def test_the_warm_up_is_in_no_latency() -> None:
    plan = Plan(address="h:1", rate=10, warmup=1, duration=2)
    rows = rows_of(record(0, 0.5, latency=5.0), *steady([1.5, 2.0, 2.5]))
    assert summarise(plan, rows, [health(4)], None).figures["latency"]["all"]["from_intended"]["max_ms"] == 10


def test_latency_counts_from_the_intended_time_and_service_from_the_actual_one() -> None:
    plan = Plan(address="h:1", rate=10, warmup=0, duration=2)
    rows = rows_of(*(record(i, i / 20, latency=0.5, lag=0.4) for i in range(40)))
    latency = summarise(plan, rows, [health(40)], None).figures["latency"]["all"]
    assert latency["from_intended"]["percentiles"]["p50"]["value"] == pytest.approx(500)
    assert latency["service"]["percentiles"]["p50"]["value"] == pytest.approx(100)


def test_a_payload_with_two_answers_is_noticed() -> None:
    rows = rows_of(*(record(i, i, payload=i % 2, digest="a" if i < 3 else "b") for i in range(4)))
    assert differing_answers(rows) == 1
    plan = Plan(address="h:1", rate=1, warmup=0, duration=4)
    assert summarise(plan, rows, [health(4)], None).exit_code == 1


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.001, 3)), min_size=1, max_size=20))
def test_calls_in_flight_average_to_the_area_below_their_curve(calls: list[tuple[float, float]]) -> None:
    rows = rows_of(*(record(i, due, latency=latency) for i, (due, latency) in enumerate(calls)))
    moments = np.arange(5, 20_000_000_000, 10_000_000, dtype=np.int64)
    curve = in_flight_at(rows, moments).mean()
    assert mean_in_flight(rows, 0, 20 * SECOND) == pytest.approx(curve, abs=0.02)

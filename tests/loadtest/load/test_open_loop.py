"""An open loop sends what was planned when it was planned, and counts from then, whatever the server does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loadtest.simulated import MILLISECOND, Behaviour, Simulation

from regard.loadtest.load.plan import Plan
from regard.loadtest.load.recorder import CENSORED, OK
from regard.loadtest.report.analysis import percentile, table

SERVICE = 5 * MILLISECOND


def quick(sent: int) -> tuple[int, str]:
    return sent + SERVICE, OK


def plan(*, deadline: float = 5) -> Plan:
    return Plan(address="h:1", rate=100, warmup=0, duration=10, deadline=deadline)


def frozen(start: int, end: int) -> Behaviour:
    def answer(sent: int) -> tuple[int, str]:
        at = sent + SERVICE
        return (end + SERVICE, OK) if start <= at < end else (at, OK)

    return answer


def test_a_freeze_of_the_server_shows_in_the_tail() -> None:
    load = Simulation(plan(), frozen(4_000 * MILLISECOND, 5_000 * MILLISECOND)).run()
    rows = table(load.recorder.records())
    p50, p95 = percentile(rows.latency, 0.5), percentile(rows.latency, 0.95)
    assert p50 is not None
    assert p95 is not None
    assert p50.value < 0.01
    # A tenth of the requests fell into the second and waited from 0 to 1 s.
    assert 0.3 < p95.value < 0.8
    assert rows.latency.max() == pytest.approx(1.0, abs=0.05)


def test_requests_go_on_being_sent_on_time_while_the_server_stands_still() -> None:
    load = Simulation(plan(), frozen(4_000 * MILLISECOND, 5_000 * MILLISECOND)).run()
    assert table(load.recorder.records()).lag.max() < 0.001


def test_a_stall_of_the_generator_drops_nothing_and_shows_in_the_latency_but_not_in_the_service_time() -> None:
    simulation = Simulation(plan(), quick, stall=(3_000 * MILLISECOND, 4_000 * MILLISECOND))
    rows = table(simulation.run().recorder.records())
    late = (rows.due > 3_050 * MILLISECOND) & (rows.due < 3_900 * MILLISECOND)
    assert len(rows) == plan().planned()
    assert np.count_nonzero(late) > 40
    assert np.all(rows.sent[late] >= 4_000 * MILLISECOND)
    assert rows.latency[late].max() > 0.8
    assert rows.service[rows.due > 4_100 * MILLISECOND].max() < 0.02


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(min_value=0, max_value=1000), slow=st.integers(min_value=0, max_value=3000))
def test_every_planned_request_is_sent_and_recorded_once_at_its_time(seed: int, slow: int) -> None:
    wanted = Plan(address="h:1", rate=50, warmup=0.5, duration=3, seed=seed, deadline=1)
    load = Simulation(wanted, lambda sent: (sent + slow * MILLISECOND, OK)).run()
    rows = load.recorder.records()
    assert [row.due_ns for row in rows] == wanted.schedule(0).tolist()
    assert all(row.sent_ns >= row.due_ns for row in rows)
    assert load.recorder.in_flight == 0


def test_what_is_unanswered_after_its_deadline_is_recorded_at_its_age_and_cancelled() -> None:
    simulation = Simulation(plan(deadline=2), lambda sent: None if sent > 9_000 * MILLISECOND else quick(sent))
    rows = simulation.run().recorder.records()
    censored = [row for row in rows if row.code == CENSORED]
    assert censored
    assert all(row.end_ns >= 12_000 * MILLISECOND for row in censored)
    assert sum(call.cancelled for call in simulation.calls) == len(censored)
    assert len(rows) == plan().planned()


def test_what_was_stopped_from_outside_is_recorded_too() -> None:
    simulation = Simulation(plan(), lambda _: None)
    simulation.load.start_at(0)
    simulation.load.send_all()
    simulation.load.abandon()
    assert len(simulation.load.recorder.records()) == plan().planned()


def test_an_answer_that_is_no_answer_is_a_failure() -> None:
    simulation = Simulation(plan(), lambda sent: (sent + SERVICE, "UNAVAILABLE"))
    assert {row.code for row in simulation.run().recorder.records()} == {"UNAVAILABLE"}
    assert {seen.code for seen in simulation.seen} == {"UNAVAILABLE"}


def test_an_observer_hears_of_every_request_with_its_latency_from_the_intended_time() -> None:
    simulation = Simulation(plan(), quick)
    rows = simulation.run().recorder.records()
    heard = sorted(seen.milliseconds for seen in simulation.seen)
    assert heard == pytest.approx(sorted((row.end_ns - row.due_ns) / 1e6 for row in rows))

"""A run is believed only where nothing speaks against it, and the verdict says what does."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.loadtest.records import SECOND, health, record, rows_of, steady

from regard.loadtest.load.plan import Plan
from regard.loadtest.load.traffic import TrafficClass
from regard.loadtest.report.results import Outcome
from regard.loadtest.report.summary import summarise
from regard.loadtest.report.verdict import Facts, Level, judge
from regard.loadtest.run import told

GOOD = Facts(
    planned=100,
    sent=100,
    recorded=100,
    measured=90,
    lag_p99_ms=0.5,
    latency_p50_ms=40.0,
    processor_share=0.2,
    loop_lag_p99_ms=1.0,
    in_flight=2.0,
    little=2.0,
    little_noise=0.01,
    early_in_flight=2.0,
    late_in_flight=2.1,
    floor_p50_ms=1.0,
    thread_pool=256,
)


def test_a_run_without_fault_is_valid_and_has_no_reasons() -> None:
    verdict = judge(GOOD)
    assert (verdict.level, verdict.reasons) == (Level.VALID, ())


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"sent": 99, "recorded": 99}, Level.INVALID),
        ({"recorded": 99}, Level.INVALID),
        ({"measured": 0}, Level.INVALID),
        ({"measured": 19}, Level.WARN),
        ({"thread_pool": 10}, Level.INVALID),
        ({"lag_p99_ms": 1.9}, Level.VALID),
        ({"lag_p99_ms": 2.1}, Level.WARN),
        ({"lag_p99_ms": 9.0, "latency_p50_ms": 200.0}, Level.VALID),
        ({"lag_p99_ms": 11.0}, Level.INVALID),
        ({"lag_p99_ms": 19.0, "latency_p50_ms": 200.0}, Level.WARN),
        ({"processor_share": 0.61}, Level.WARN),
        ({"processor_share": 0.81}, Level.INVALID),
        ({"loop_lag_p99_ms": 5.1}, Level.WARN),
        ({"loop_lag_p99_ms": 51.0}, Level.INVALID),
        ({"little": 2.05}, Level.VALID),
        ({"little": 2.2}, Level.WARN),
        ({"little": 2.2, "little_noise": 0.2}, Level.VALID),
        ({"little": 4.0}, Level.INVALID),
        ({"late_in_flight": 6.0}, Level.WARN),
        ({"floor_p50_ms": 5.0}, Level.WARN),
        ({"floor_p50_ms": None}, Level.VALID),
        ({"planned": None, "sent": 5, "recorded": 5}, Level.VALID),
    ],
)
def test_each_check_has_its_limits(change: dict[str, Any], level: Level) -> None:
    verdict = judge(replace(GOOD, **change))
    assert verdict.level is level
    assert len(verdict.reasons) == (level is not Level.VALID)


def test_a_server_that_does_not_keep_up_has_no_percentiles_to_quote() -> None:
    plan = Plan(address="h:1", rate=100, warmup=0, duration=6)
    rows = rows_of(*(record(i, i / 100, latency=0.01 + i / 100) for i in range(600)))
    summary = summarise(plan, rows, [health(600, in_flight_ns=600 * 3 * SECOND)], None)
    assert summary.figures["overloaded"]
    assert "OVERLOADED" in summary.sentence
    assert "p50" not in summary.sentence


def test_a_good_run_has_a_sentence_with_load_rate_and_latency() -> None:
    plan = Plan(address="h:1", arrivals="constant", rate=20, warmup=0, duration=10)
    rows = rows_of(*steady([i / 20 for i in range(200)]))
    summary = summarise(plan, rows, [health(200, in_flight_ns=2 * SECOND)], None)
    assert summary.exit_code == 0
    assert "Constant arrivals at 20 requests/s for 10 s" in summary.sentence
    assert "200 of 200 requests answered well" in summary.sentence
    assert "p95 10.0 ms" in summary.sentence
    assert summary.sentence.endswith("VALID.")


def test_classes_have_percentiles_of_their_own_in_the_sentence_and_in_the_figures() -> None:
    classes = (TrafficClass(name="texts"), TrafficClass(name="photos", pictures=1))
    plan = Plan(address="h:1", rate=40, warmup=0, duration=10, classes=classes)
    records = [
        record(i, i / 40, latency=(0.01, 0.3)[i % 2], traffic=classes[i % 2].name, code="OK" if i else "INTERNAL")
        for i in range(400)
    ]
    summary = summarise(plan, rows_of(*records), [health(400, in_flight_ns=2 * SECOND)], None)
    texts, photos = (summary.figures["classes"][traffic.name] for traffic in classes)
    assert (texts["task"], texts["sent"], texts["ok"], texts["by_code"]["INTERNAL"]) == ("translations", 200, 199, 1)
    assert (photos["task"], photos["sent"], photos["ok"]) == ("captions", 200, 200)
    assert photos["answered_per_second"] == pytest.approx(20, abs=1)
    assert photos["target_tokens_per_second"] == pytest.approx(100, abs=5)
    assert photos["server"]["decode"]["mean_ms"] == pytest.approx(3)
    assert "texts p50 10.0 ms" in summary.sentence
    assert "photos p50 300.0 ms" in summary.sentence
    terminal = told(Outcome(summary, Path("report.html")))
    assert re.search(r"^texts +199 of 200 .* 10\.0 ", terminal, re.MULTILINE)


def test_one_failure_makes_the_exit_code() -> None:
    plan = Plan(address="h:1", arrivals="constant", rate=20, warmup=0, duration=10)
    records = steady([i / 20 for i in range(199)])
    rows = rows_of(*records, record(199, 9.95, code="INTERNAL"))
    assert summarise(plan, rows, [health(200, in_flight_ns=2 * SECOND)], None).exit_code == 1


def test_a_run_that_is_not_to_be_believed_makes_the_exit_code() -> None:
    plan = Plan(address="h:1", arrivals="constant", rate=20, warmup=0, duration=10)
    rows = rows_of(*steady([i / 20 for i in range(199)]))
    summary = summarise(plan, rows, [health(199, in_flight_ns=2 * SECOND)], None)
    assert summary.verdict.level is Level.INVALID
    assert summary.exit_code == 1

"""A real, short load by Locust: it sends what was planned, records all of it, and leaves nothing running."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from regard.loadtest.base.processes import Served, child_environment
from regard.loadtest.load import connection
from regard.loadtest.load.connection import Connection, UnreachableError
from regard.loadtest.load.generate import Status, generate
from regard.loadtest.load.plan import Plan
from regard.loadtest.load.run_directory import ENVIRONMENT, GENERATOR, PLAN, RECORDS, REPORT, SUMMARY, VERDICT
from regard.loadtest.load.traffic import TrafficClass
from regard.loadtest.run import run


def load_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "locust" in " ".join(child.cmdline())]


def test_a_load_is_sent_recorded_and_reported_whole(toy_server: Served, tmp_path: Path) -> None:
    classes = (
        TrafficClass(name="good", model="delay-5"),
        TrafficClass(name="bad", model="fail-UNAVAILABLE-50"),
        TrafficClass(name="maps", model="delay-5", pictures=1, size="small", attention=True, weight=0.5),
    )
    plan = Plan(address=toy_server.address, rate=75, warmup=0.2, duration=1.5, classes=classes, deadline=60)
    outcome = run(plan, tmp_path, floor=False)
    figures = outcome.summary.figures
    counts = figures["counts"]
    assert counts["planned"] == counts["sent"] == counts["recorded"] == plan.planned()
    assert set(counts["by_code"]) == {"OK", "UNAVAILABLE"}
    assert counts["by_code"]["UNAVAILABLE"] == pytest.approx(counts["recorded"] / 5, abs=12)
    assert outcome.exit_code == 1
    for name, task in (("good", "translations"), ("maps", "captions")):
        assert figures["latency"][name]["from_intended"]["min_ms"] >= 5
        assert figures["classes"][name]["task"] == task
        assert figures["classes"][name]["ok"] == figures["classes"][name]["sent"] > 5
    assert "the toy fails 50 %" in json.loads((tmp_path / GENERATOR).read_text())[0]["examples"]["UNAVAILABLE"]
    for name in (PLAN, RECORDS, SUMMARY, VERDICT, ENVIRONMENT, REPORT):
        assert (tmp_path / name).is_file()
    assert not load_processes()


def test_an_interrupted_load_leaves_no_process(toy_server: Served, tmp_path: Path) -> None:
    def interrupt(status: Status) -> None:
        assert load_processes()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(Plan(address=toy_server.address, duration=60), tmp_path, on_status=interrupt)
    assert not load_processes()


def test_bare_locust_over_two_processes_leaves_one_whole_report(toy_server: Served, tmp_path: Path) -> None:
    file = Path(connection.__file__).parents[1] / "locustfile.py"
    options = f"--headless --only-summary -u 2 -r 2 --processes 2 -t 2s --warmup 0.5 --rate 40 --output {tmp_path}"
    command = [sys.executable, "-m", "locust", "-f", str(file), "--host", toy_server.address, *options.split()]
    # Whether the figures may be believed depends on who else uses this machine; that they are all there does not.
    subprocess.run(command, env=child_environment(), capture_output=True, timeout=300, check=False)
    counts = json.loads((tmp_path / SUMMARY).read_text())["counts"]
    assert counts["planned"] == counts["recorded"] == counts["by_code"]["OK"] > 30
    assert len(json.loads((tmp_path / GENERATOR).read_text())) == 2
    assert (tmp_path / REPORT).is_file()


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(UnreachableError, match=r"no gRPC server answers at 127\.0\.0\.1:1 within 0\.2 s"):
        Connection("127.0.0.1:1", 2, patience=0.2)

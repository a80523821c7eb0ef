"""`regard bench selftest`: does the load test measure what it claims? Tried on a server whose delays are known.

It does not test the translator. It starts a toy server, stops and resumes it, and compares what the records say with
what must have happened.
"""

import json
import os
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import NamedTuple

from regard.loadtest.base.processes import Served, StartError, served, toy
from regard.loadtest.base.progress import Progress
from regard.loadtest.base.text_table import text_table
from regard.loadtest.load.gauges import read_health
from regard.loadtest.load.generate import GenerateError, Status, generate
from regard.loadtest.load.load import window_of
from regard.loadtest.load.plan import Plan
from regard.loadtest.load.recorder import read_records
from regard.loadtest.load.run_directory import GENERATOR, RECORDS, gather
from regard.loadtest.load.traffic import TrafficClass
from regard.loadtest.report.analysis import Table, completed_rate, mean_in_flight, percentile, table
from regard.loadtest.report.summary import Summary, summarise

FREEZE_SECONDS = 1.0


class Finding(NamedTuple):
    """One property of the load test, what it had to be and what it was."""

    check: str
    expected: str
    got: str
    passed: bool


class Trial(NamedTuple):
    """A finished load on the toy."""

    plan: Plan
    rows: Table
    summary: Summary

    @property
    def window(self) -> Table:
        """What was due in the measured window."""
        return self.rows.due_within(*window_of(self.plan))


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def command(arguments: Namespace) -> int:
    """Run all trials and print the table; 1 if any finding is not as expected."""
    try:
        with tempfile.TemporaryDirectory(prefix="regard-selftest-") as folder, served(toy()) as server:
            findings = selftest(server, Path(folder))
    except (GenerateError, StartError) as problem:
        sys.stderr.write(f"regard bench selftest: {problem}\n")
        return 1
    if arguments.json:
        sys.stdout.write(json.dumps([finding._asdict() for finding in findings], indent=2) + "\n")
    else:
        rows = [(f.check, f.expected, f.got, "pass" if f.passed else "FAIL") for f in findings]
        sys.stdout.write(text_table(("property of the load test", "expected", "got", ""), rows))
    return 0 if all(finding.passed for finding in findings) else 1


def selftest(server: Served, folder: Path) -> list[Finding]:
    """Make all trials against a toy."""
    progress = Progress("selftest", 4)
    findings: list[Finding] = []
    trials: list[Trial] = []
    for number, make in enumerate((_freeze, _head_of_line, callers_together, _failures)):
        progress.show(number, make.__doc__ or "")
        made, found = make(server, folder)
        trials += made
        findings += found
    progress.show(4)
    progress.close()
    return [*findings, *_all_sent(trials)]


def _freeze(server: Served, folder: Path) -> tuple[list[Trial], list[Finding]]:
    """a server that stops for a second"""
    fast = (TrafficClass(name="fast", model="delay-5"),)
    opened = Plan(address=server.address, rate=100, warmup=0.5, duration=7, classes=fast)
    closed = Plan(address=server.address, loop="closed", users=1, warmup=0.5, duration=7, classes=fast)
    running = (Event(), Event())

    def freeze() -> None:
        for event in running:
            event.wait()
        time.sleep(1)
        os.kill(server.process.pid, signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)
        os.kill(server.process.pid, signal.SIGCONT)

    with ThreadPoolExecutor(3) as pool:
        frozen = pool.submit(freeze)
        loads = [
            pool.submit(_trial, plan, folder / name, event)
            for plan, name, event in zip((opened, closed), ("open", "closed"), running, strict=True)
        ]
        trials = [load.result() for load in loads]
        frozen.result()
    found = [percentile(trial.window.latency, 0.95) for trial in trials]
    honest, hiding = (p.value * 1e3 if p else 0.0 for p in found)
    got = f"p95 {honest:.0f} ms (a closed loop says {hiding:.1f} ms)"
    answered, offered = completed_rate(trials[0].rows, *window_of(opened)), len(trials[0].window) / opened.duration
    near = abs(answered - offered) <= 0.05 * offered
    return [trials[0]], [
        Finding("a freeze of 1 s shows in p95, open loop", "at least 300 ms", got, honest >= 300),
        Finding("answers a second, in spite of it", f"{offered:.1f}, 5 % either way", f"{answered:.1f}", near),
    ]


def _head_of_line(server: Served, folder: Path) -> tuple[list[Trial], list[Finding]]:
    """fast calls among slow ones"""
    classes = (
        TrafficClass(name="slow", model="delay-2000"),
        TrafficClass(name="fast", model="delay-1"),
    )
    plan = Plan(address=server.address, rate=40, warmup=2.5, duration=4, classes=classes)
    trial = _trial(plan, folder / "mixed")
    slow = trial.rows.select(trial.rows.traffic == "slow")
    fast = percentile(trial.window.select(trial.window.traffic == "fast").latency, 0.5)
    in_flight = mean_in_flight(slow, *window_of(plan))
    median = fast.value * 1e3 if fast else float("inf")
    return [trial], [
        Finding("slow calls in flight meanwhile", "about 40", f"{in_flight:.0f}", 25 <= in_flight <= 55),
        Finding("a fast call does not wait for slow ones", "p50 below 20 ms", f"p50 {median:.1f} ms", median < 20),
    ]


def callers_together(server: Served, folder: Path) -> tuple[list[Trial], list[Finding]]:
    """callers that must not queue behind one another"""
    classes = (TrafficClass(name="half a second", model="delay-500"),)
    plan = Plan(address=server.address, loop="closed", users=6, warmup=0, duration=1.2, classes=classes)
    trial = _trial(plan, folder / "together")
    first = trial.rows.select(trial.rows.sent < 250_000_000)
    seconds = float((first.end.max() - first.sent.min()) / 1e9) if len(first) else float("inf")
    together = int(trial.rows.rows.max()) if len(trial.rows) else 0
    return [], [
        Finding("6 callers of a 0.5 s call, time for all", "below 1 s", f"{seconds:.2f} s", seconds < 1),
        Finding("calls in the server at once", "6", f"{together}", together == 6 and len(first) == 6),
    ]


def _failures(server: Served, folder: Path) -> tuple[list[Trial], list[Finding]]:
    """a server that fails as often as told"""
    expected = {"UNAVAILABLE": 30, "RESOURCE_EXHAUSTED": 10}
    classes = tuple(TrafficClass(name=code, model=f"fail-{code}-{percent}") for code, percent in expected.items())
    plan = Plan(address=server.address, rate=100, warmup=0, duration=3, classes=classes)
    trial = _trial(plan, folder / "failures")
    findings: list[Finding] = []
    for code, percent in expected.items():
        part = trial.rows.select(trial.rows.traffic == code)
        share = 100 * float((part.code == code).mean()) if len(part) else 0.0
        as_told = abs(share - percent) <= 2 and set(part.code.tolist()) == {"OK", code}
        findings.append(Finding(f"share of {code}", f"{percent} %, 2 either way", f"{share:.1f} %", as_told))
    code = trial.summary.exit_code
    return [trial], [*findings, Finding("failures make the exit code", "1", f"{code}", code == 1)]


def _all_sent(trials: list[Trial]) -> list[Finding]:
    planned = sum(trial.plan.planned() or 0 for trial in trials)
    recorded = sum(len(trial.rows) for trial in trials)
    return [Finding("requests sent and recorded", f"{planned}, all planned", f"{recorded}", recorded == planned)]


def _trial(plan: Plan, directory: Path, running: Event | None = None) -> Trial:
    def watch(status: Status) -> None:
        if running is not None and status.seconds > 1:
            running.set()

    on_status: Callable[[Status], None] = watch
    try:
        generate(plan, directory, on_status=on_status)
    finally:
        if running is not None:
            running.set()
    gather(directory, workers=plan.workers)
    rows = table(read_records(directory / RECORDS))
    return Trial(plan, rows, summarise(plan, rows, read_health(directory / GENERATOR), None))

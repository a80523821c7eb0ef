"""`regard bench run`: one load test, from a server to its report.

It does not know how figures are worked out or load is made; it joins those who do.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from loadtest.analysis import percentile, table
from loadtest.corpus import BUILT_IN_CLASSES, parse_classes
from loadtest.generate import GenerateError, Status, generate
from loadtest.load import window_of
from loadtest.plan import Plan
from loadtest.processes import StartError, served, toy, translator
from loadtest.progress import Progress
from loadtest.recorder import read_records
from loadtest.results import Outcome, make_results, note_environment
from loadtest.run_directory import FLOOR, RECORDS, gather

FLOOR_SECONDS = 3.0
# A floor needs some requests to have a median.
FLOOR_RATE = 20.0
INTERRUPTED = 130


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    where = parser.add_argument_group("the server")
    where.add_argument("--address", metavar="HOST:PORT", help="a running server; without this a private one is started")
    where.add_argument("--models", type=Path, action="append", default=[], help="bundles of the private server")
    where.add_argument("--profile", default="", help="graphs that the private server runs: portable, cpu, cuda")
    load = parser.add_argument_group("the load")
    load.add_argument(
        "--rate", type=float, default=20.0, help="requests per second, sent when due whatever the server does"
    )
    load.add_argument(
        "--arrivals", choices=["poisson", "constant"], default="poisson", help="how they are spread (poisson)"
    )
    load.add_argument(
        "--closed", type=int, metavar="N", help="keep N calls in flight instead; latency then hides stalls"
    )
    load.add_argument("--duration", type=float, default=30.0, help="seconds that are measured (30)")
    load.add_argument("--warmup", type=float, default=2.0, help="seconds before them that no figure contains (2)")
    load.add_argument("--deadline", type=float, default=10.0, help="seconds that a call may take (10)")
    load.add_argument("--seed", type=int, default=1, help="of arrival times and payloads (1)")
    load.add_argument(
        "--classes",
        default="any",
        help=f"kinds of request with weights, as short=3,beam=1: {', '.join(BUILT_IN_CLASSES)}",
    )
    load.add_argument(
        "--sentences", default="", metavar="FILE", help="one text a line, instead of the built-in sentences"
    )
    load.add_argument("--workers", type=int, default=1, help="processes that make the load (1)")
    load.add_argument("--connections", type=int, default=2, help="TCP connections of each (2)")
    result = parser.add_argument_group("the result")
    result.add_argument("--output", type=Path, help="folder for it (a new one under reports/)")
    result.add_argument("--no-floor", action="store_true", help="skip measuring against a server that does nothing")
    result.add_argument("--json", action="store_true", help="print summary.json instead of the sentence")


def command(arguments: Namespace) -> int:
    """Run a load test: 0 if all was answered well and the run may be believed, 1 if not, 2 for wrong options."""
    try:
        plan = _plan(arguments, address=arguments.address or "")
        plan.corpus()
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"regard bench run: {problem}\n")
        return 2
    directory = arguments.output or Path("reports", f"bench-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
    try:
        with _server(arguments) as address:
            outcome = run(replace(plan, address=address), directory.resolve(), floor=not arguments.no_floor)
    except (GenerateError, StartError) as problem:
        sys.stderr.write(f"regard bench run: {problem}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; all processes of the load have ended\n")
        return INTERRUPTED
    text = json.dumps(outcome.summary.figures, indent=2) if arguments.json else outcome.sentence
    reasons = "" if arguments.json else "".join(f"\n  {reason}" for reason in outcome.summary.verdict.reasons)
    sys.stdout.write(f"{text}{reasons}\n")
    sys.stderr.write(f"report: {directory / outcome.report.name}\n")
    return outcome.exit_code


def run(plan: Plan, directory: Path, *, floor: bool) -> Outcome:
    """Make the load of a plan and its results. Raises GenerateError."""
    directory.mkdir(parents=True, exist_ok=True)
    note_environment(directory, plan.address)
    if floor:
        with TemporaryDirectory(prefix="regard-floor-") as folder, served(toy()) as server:
            measured = measure_floor(plan, server.address, Path(folder))
        (directory / FLOOR).write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    _generate(plan, directory, "load ")
    gather(directory, workers=plan.workers)
    return make_results(directory)


def measure_floor(plan: Plan, address: str, directory: Path) -> dict[str, object]:
    """The latency of the same kind of load, in short, against a server that does nothing: the generator's own."""
    short = replace(
        plan,
        address=address,
        users=1,
        rate=max(plan.rate, FLOOR_RATE),
        warmup=0.5,
        duration=FLOOR_SECONDS,
        workers=1,
    )
    _generate(short, directory, "floor")
    gather(directory, workers=1)
    rows = table(read_records(directory / RECORDS)).due_within(*window_of(short))
    good = rows.select(rows.ok)
    median, high = percentile(good.latency, 0.5), percentile(good.latency, 0.99)
    return {
        "what": f"{short.loop} loop, " + (f"{short.rate:g} requests/s" if short.loop == "open" else "1 call in flight"),
        "n": len(rows),
        "p50_ms": median.value * 1e3 if median else None,
        "p99_ms": high.value * 1e3 if high else None,
        "max_ms": float(rows.latency.max()) * 1e3 if len(rows) else None,
    }


def _generate(plan: Plan, directory: Path, label: str) -> None:
    progress = Progress(label, plan.seconds)

    def show(status: Status) -> None:
        note = f"{status.sent} sent, {status.in_flight} in flight, {status.failed} failed"
        progress.show(max(status.seconds, 0.0), note)

    try:
        generate(plan, directory, on_status=show)
    finally:
        progress.close()


@contextmanager
def _server(arguments: Namespace) -> Generator[str]:
    if arguments.address:
        yield arguments.address
        return
    with served(translator(arguments.models, profile=arguments.profile)) as server:
        yield server.address


def _plan(arguments: Namespace, *, address: str) -> Plan:
    return Plan(
        address=address,
        loop="open" if arguments.closed is None else "closed",
        arrivals=arguments.arrivals,
        rate=arguments.rate,
        users=1 if arguments.closed is None else arguments.closed,
        warmup=arguments.warmup,
        duration=arguments.duration,
        deadline=arguments.deadline,
        seed=arguments.seed,
        workers=arguments.workers,
        connections=arguments.connections,
        classes=parse_classes(arguments.classes),
        sentences=str(Path(arguments.sentences).resolve()) if arguments.sentences else "",
    )

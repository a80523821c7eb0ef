"""`regard bench run`: one load test, from a server to its report.

It does not know how figures are worked out or load is made; it joins those who do.
"""

import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.loadtest.base.processes import StartError, served, toy, translator
from regard.loadtest.base.progress import Progress
from regard.loadtest.base.text_table import text_table
from regard.loadtest.load.generate import GenerateError, Status, generate
from regard.loadtest.load.load import window_of
from regard.loadtest.load.plan import Plan
from regard.loadtest.load.recorder import read_records
from regard.loadtest.load.run_directory import FLOOR, RECORDS, gather
from regard.loadtest.load.traffic import HELP, parse_classes
from regard.loadtest.report.analysis import percentile, table
from regard.loadtest.report.results import Outcome, make_results, note_environment

FLOOR_SECONDS = 3.0
# A floor needs some requests to have a median.
FLOOR_RATE = 20.0
INTERRUPTED = 130

_CLASS_HEADER = ("class", "answered well", "answers/s", "tokens/s", "p50 ms", "p95 ms", "p99 ms", "maximum ms")
_EPILOG = """\
examples:
  regard bench run --rate 20 --duration 30
  regard bench run --classes short=3,long=1 --rate 50
  regard bench run --classes medium=4,caption=1 --rate 10
  regard bench run --classes caption,caption-maps --pictures holiday/ --rate 2
  regard bench run --address 127.0.0.1:50051 --closed 16

Requests of several classes are mixed in one run. Each class has its own latency, rates, statuses and times in the
server, in the report and in --json. Without --pictures, captions are of drawn pictures, JPEG files of 224 x 224,
640 x 480 and 1600 x 1200 pixels; caption-small takes the first kind alone, caption-photo 12 megapixels. An answer is
good if it is whole: a caption has text and words, and where attention is asked for (attention, caption-maps) that of
every word sums to 1.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
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
    load.add_argument("--classes", default="any", help=HELP)
    load.add_argument(
        "--sentences", default="", metavar="FILE", help="one text a line, instead of the built-in sentences"
    )
    load.add_argument(
        "--pictures", default="", metavar="DIR", help="picture files to caption, instead of drawn ones of usual sizes"
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
    sys.stdout.write(json.dumps(outcome.summary.figures, indent=2) + "\n" if arguments.json else told(outcome))
    sys.stderr.write(f"report: {directory / outcome.report.name}\n")
    return outcome.exit_code


def told(outcome: Outcome) -> str:
    """What a run comes to, for a terminal: the sentence, what speaks against it, and classes if there are several."""
    figures = outcome.summary.figures
    lines = [outcome.sentence, *(f"  {reason}" for reason in outcome.summary.verdict.reasons)]
    text = "".join(f"{line}\n" for line in lines)
    if len(figures["classes"]) < 2:
        return text
    return f"{text}\n{text_table(_CLASS_HEADER, [_class_row(figures, name) for name in figures['classes']])}"


def _class_row(figures: dict[str, Any], name: str) -> list[str]:
    found, spread = figures["classes"][name], figures["latency"][name]["from_intended"]
    percentiles = [spread["percentiles"].get(p) for p in ("p50", "p95", "p99")]
    return [
        name,
        f"{found['ok']} of {found['sent']}",
        f"{found['answered_per_second']:.1f}",
        f"{found['target_tokens_per_second']:.0f}",
        *("-" if p is None else f"{p['value']:.1f}" for p in percentiles),
        "-" if spread["max_ms"] is None else f"{spread['max_ms']:.1f}",
    ]


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
        pictures=str(Path(arguments.pictures).resolve()) if arguments.pictures else "",
    )

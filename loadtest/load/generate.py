"""Runs headless Locust on a plan in a process group of its own, and leaves the records of the load in a folder.

It does not know what the records say.
"""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, NamedTuple

from regard.loadtest.base.processes import child
from regard.loadtest.load.plan import Plan
from regard.loadtest.load.run_directory import LOG, PLAN, RECORDS, part_of

# Seconds that Locust may take beyond the load itself, to start, make its payloads, connect and write.
SLACK_SECONDS = 120.0


class Status(NamedTuple):
    """How far the load is, all workers together."""

    seconds: float  # after the start of the load
    sent: int
    in_flight: int
    failed: int


class GenerateError(Exception):
    """The load could not be made; says why."""


def generate(plan: Plan, directory: Path, *, on_status: Callable[[Status], None] = lambda status: None) -> None:
    """Make the load, and return when every request has been recorded.

    Whatever ends it early, an interrupt included, ends all its processes. Raises GenerateError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / PLAN).write_text(plan.to_json(), encoding="utf-8")
    with (
        (directory / LOG).open("wb") as log,
        child(["-m", "locust", *_arguments(plan, directory)], stdout=subprocess.PIPE, stderr=log) as process,
    ):
        _follow(process, time.monotonic() + plan.seconds + plan.deadline + SLACK_SECONDS, on_status)
    if not all(part_of(directory, RECORDS, worker).exists() for worker in range(plan.workers)):
        lines = (directory / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        errors = [line.partition("ERROR/")[2].partition(": ")[2] for line in lines if "/ERROR/" in line]
        raise GenerateError(errors[0] if errors else "\n".join(lines[-10:]) or "Locust ended without a word")


def _arguments(plan: Plan, directory: Path) -> list[str]:
    users = max(plan.users if plan.loop == "closed" else 1, plan.workers)
    arguments = [
        "-f",
        str(Path(__file__).parents[1] / "locustfile.py"),
        "--headless",
        "--only-summary",
        f"--host={plan.address}",
        f"--users={users}",
        f"--spawn-rate={users}",
        f"--connections={plan.connections}",
        f"--plan={directory / PLAN}",
        f"--output={directory}",
        "--status",
        "--no-report",
        "--exit-code-on-error=0",
    ]
    return arguments if plan.workers == 1 else [*arguments, f"--processes={plan.workers}"]


def _follow(process: subprocess.Popen[bytes], give_up: float, on_status: Callable[[Status], None]) -> None:
    assert process.stdout is not None
    lines: SimpleQueue[bytes | None] = SimpleQueue()
    Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    latest: dict[int, Status] = {}
    while True:
        try:
            line = lines.get(timeout=max(give_up - time.monotonic(), 0.0))
        except Empty:
            raise GenerateError("Locust did not come to an end; it was stopped") from None
        if line is None:
            return
        if line.startswith(b'{"regard"'):
            said = json.loads(line)["regard"]
            worker = said.pop("worker")
            latest[worker] = Status(**said)
            parts = latest.values()
            on_status(
                Status(
                    max(part.seconds for part in parts),
                    sum(part.sent for part in parts),
                    sum(part.in_flight for part in parts),
                    sum(part.failed for part in parts),
                )
            )


def _read(stream: IO[bytes], lines: SimpleQueue[bytes | None]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)

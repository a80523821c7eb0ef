"""Makes the results of a run directory: summary, verdict and report, as often as one likes.

It does not know how the load was made: everything is read from the files that it left.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from regard.atomic import write_text
from regard.loadtest.base.environment import command_line, environment, models_at
from regard.loadtest.load.gauges import read_health
from regard.loadtest.load.plan import plan_from_json
from regard.loadtest.load.recorder import read_records
from regard.loadtest.load.run_directory import (
    ENVIRONMENT,
    FLOOR,
    GENERATOR,
    PLAN,
    RECORDS,
    REPORT,
    SUMMARY,
    VERDICT,
    gather,
)
from regard.loadtest.report.analysis import table
from regard.loadtest.report.html_report import render
from regard.loadtest.report.summary import Summary, summarise


class Outcome(NamedTuple):
    """What a run comes to."""

    summary: Summary
    report: Path

    @property
    def exit_code(self) -> int:
        """0 if all is well."""
        return self.summary.exit_code

    @property
    def sentence(self) -> str:
        """What one may quote."""
        return self.summary.sentence


def conclude(directory: Path) -> Outcome:
    """Put the parts of a finished run together, note the environment, and make the results.

    Raises FileNotFoundError if a part is missing.
    """
    plan = plan_from_json((directory / PLAN).read_text(encoding="utf-8"))
    gather(directory, workers=plan.workers)
    if not (directory / ENVIRONMENT).exists():
        note_environment(directory, plan.address)
    return make_results(directory)


def note_environment(directory: Path, address: str) -> None:
    """Write env.json."""
    value = environment(command_line())
    value["models"] = models_at(address)
    write_text(directory / ENVIRONMENT, json.dumps(value, indent=2) + "\n")


def make_results(directory: Path) -> Outcome:
    """Write summary.json, verdict.json and report.html from the other files of a run directory.

    Raises FileNotFoundError for a folder that is none, ValueError for files of another schema.
    """
    if not (directory / RECORDS).is_file():
        raise FileNotFoundError(f"{directory} holds no {RECORDS}: it is not the folder of a finished run")
    plan = plan_from_json((directory / PLAN).read_text(encoding="utf-8"))
    rows = table(read_records(directory / RECORDS))
    healths = read_health(directory / GENERATOR)
    summary = summarise(plan, rows, healths, _optional(directory / FLOOR))
    verdict = {
        "level": summary.verdict.level.name,
        "checks": [{**check._asdict(), "level": check.level.name} for check in summary.verdict.checks],
    }
    _write(directory / SUMMARY, summary.figures)
    _write(directory / VERDICT, verdict)
    html = render(
        plan=plan, rows=rows, healths=healths, summary=summary, environment=_optional(directory / ENVIRONMENT) or {}
    )
    write_text(directory / REPORT, html)
    return Outcome(summary, directory / REPORT)


def _optional(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _write(path: Path, value: dict[str, Any]) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")

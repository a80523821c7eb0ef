"""Tabulates the conditions of a run for its report: machine, versions, models and plan."""

from typing import Any

from regard.loadtest.load.plan import Plan
from regard.loadtest.report.page import Grid, json_text

PLAN_ROWS = ("loop", "arrivals", "rate", "warmup", "duration", "deadline", "seed", "workers", "connections")
CLOSED_PLAN_ROWS = ("loop", "users", "warmup", "duration", "deadline", "seed", "workers", "connections")


def environment_table(environment: dict[str, Any]) -> Grid:
    """Tabulate the machine, the versions and the models."""
    models = [f"{m['name']} {m['version']} ({m['profile']}, {m['digest'][:12]})" for m in environment.get("models", [])]
    packages = [f"{name} {version}" for name, version in environment.get("packages", {}).items()]
    apart = ("models", "packages", "command")
    shown = {name: value for name, value in environment.items() if name not in apart and value not in ("", None)}
    rows = [[name.replace("_", " "), json_text(value)] for name, value in shown.items()]
    return Grid(["environment", ""], [*rows, ["packages", ", ".join(packages)], ["models", ", ".join(models)]])


def plan_table(plan: Plan) -> Grid:
    """Tabulate what was to be sent, and how."""
    names = PLAN_ROWS if plan.loop == "open" else CLOSED_PLAN_ROWS
    rows = [[name, json_text(getattr(plan, name))] for name in names]
    classes = ", ".join(f"{traffic.name} (weight {traffic.weight:g})" for traffic in plan.classes)
    sentences = plan.sentences.rpartition("/")[2] or "built in"
    pictures = plan.pictures.rpartition("/")[2] or "drawn"
    return Grid(["plan", ""], [*rows, ["classes", classes], ["sentences", sentences], ["pictures", pictures]])

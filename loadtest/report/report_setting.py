"""Tells in a report where and how a load was made: tables of the machine, the versions and the plan.

It does not know what came of it.
"""

from html import escape
from typing import Any

from regard.loadtest.load.plan import Plan
from regard.loadtest.report.page import plain, table

PLAN_ROWS = ("loop", "arrivals", "rate", "warmup", "duration", "deadline", "seed", "workers", "connections")
CLOSED_PLAN_ROWS = ("loop", "users", "warmup", "duration", "deadline", "seed", "workers", "connections")


def environment_table(environment: dict[str, Any]) -> str:
    """The machine, the versions and the models."""
    models = [f"{m['name']} {m['version']} ({m['profile']}, {m['digest'][:12]})" for m in environment.get("models", [])]
    packages = [f"{name} {version}" for name, version in environment.get("packages", {}).items()]
    apart = ("models", "packages", "command")
    rows = [[k.replace("_", " "), plain(v)] for k, v in environment.items() if k not in apart and v not in ("", None)]
    return table(["environment", ""], [*rows, ["packages", ", ".join(packages)], ["models", ", ".join(models)]])


def plan_table(plan: Plan) -> str:
    """What was to be sent, and how."""
    rows = [[name, plain(getattr(plan, name))] for name in (PLAN_ROWS if plan.loop == "open" else CLOSED_PLAN_ROWS)]
    classes = ", ".join(f"{traffic.name} (weight {traffic.weight:g})" for traffic in plan.classes)
    sentences = plan.sentences.rpartition("/")[2] or "built in"
    pictures = plan.pictures.rpartition("/")[2] or "drawn"
    return table(["plan", ""], [*rows, ["classes", classes], ["sentences", sentences], ["pictures", pictures]])


def again(environment: dict[str, Any]) -> str:
    """The command."""
    return f"<p>To do it again:</p><pre>{escape(environment.get('command', ''))}</pre>"

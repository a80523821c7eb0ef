"""Sums a run up in one JSON value: the figures that may be quoted, and the sentence to quote them in.

It does not draw, and reads no file.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.loadtest.load.gauges import Health
from regard.loadtest.load.load import window_of
from regard.loadtest.load.plan import Plan
from regard.loadtest.load.recorder import CENSORED
from regard.loadtest.load.traffic import TrafficClass
from regard.loadtest.report.analysis import (
    Table,
    completed_rate,
    differing_answers,
    mean_in_flight,
    percentile,
    spread,
    token_rate,
)
from regard.loadtest.report.verdict import Facts, Level, Verdict, judge

SCHEMA_VERSION = 1
SLOWEST = 20


class Summary(NamedTuple):
    """Figures and verdict of a run."""

    figures: dict[str, Any]
    verdict: Verdict

    @property
    def sentence(self) -> str:
        """What one may quote."""
        return self.figures["sentence"]

    @property
    def exit_code(self) -> int:
        """0 if every request was answered well and alike, and the run may be believed."""
        counts = self.figures["counts"]
        bad = counts["failed"] or counts["differing_answers"] or self.verdict.level is Level.INVALID
        return 1 if bad else 0


def summarise(plan: Plan, rows: Table, healths: Sequence[Health], floor: dict[str, Any] | None) -> Summary:
    """Work out all figures.

    Args:
        plan: what should have happened.
        rows: what did.
        healths: of the workers.
        floor: figures of the same load against a server that does nothing.
    """
    start, end = window_of(plan)
    window = rows.due_within(start, end)
    good = window.select(window.ok)
    verdict = judge(_facts(plan, rows, healths, floor))
    offered = len(window) / plan.duration
    figures: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "sentence": "",
        "verdict": verdict.level.name,
        "overloaded": verdict.overloaded,
        "reasons": list(verdict.reasons),
        "loop": plan.loop,
        "seconds": plan.duration,
        "counts": {
            "planned": plan.planned(),
            "sent": sum(health.sent for health in healths),
            "recorded": len(rows),
            "measured": len(window),
            "ok": int(window.ok.sum()),
            "failed": int((~rows.ok).sum()),
            "by_code": _codes(rows),
            "differing_answers": differing_answers(rows),
        },
        "rates": {
            "offered_per_second": offered if plan.loop == "open" else None,
            "answered_per_second": completed_rate(rows, start, end),
            "target_tokens_per_second": token_rate(rows, start, end),
            "in_flight": mean_in_flight(rows, start, end),
        },
        "latency": {"all": _latencies(good), **{name: _latencies(part) for name, part in by_class(plan, good)}},
        "classes": {
            traffic.name: _class(traffic, rows.select(rows.traffic == traffic.name), start, end)
            for traffic in plan.classes
        },
        "send_lag": spread(window.lag),
        "server": _server(good),
        "generator": [{k: v for k, v in health._asdict().items() if k != "series"} for health in healths],
        "floor": floor,
        "slowest": _slowest(window),
    }
    figures["sentence"] = _sentence(plan, figures, verdict)
    return Summary(figures, verdict)


def by_class(plan: Plan, rows: Table) -> list[tuple[str, Table]]:
    """The rows of each traffic class, in the order of the plan."""
    return [(traffic.name, rows.select(rows.traffic == traffic.name)) for traffic in plan.classes]


def _facts(plan: Plan, rows: Table, healths: Sequence[Health], floor: dict[str, Any] | None) -> Facts:
    start, end = window_of(plan)
    third = (end - start) // 3
    window = rows.due_within(start, end)
    good = window.select(window.ok)
    median = percentile(good.latency, 0.5)
    sent = rows.select((rows.sent >= start) & (rows.sent < end))
    mean = float(sent.service.mean()) if len(sent) else 0.0
    little = len(sent) / plan.duration * mean
    residual = float(np.square(sent.service).mean()) / mean if mean else 0.0
    # What is in flight at either end of the window counts on one side only: about the square root of their number.
    noise = 3 * math.sqrt(2 * little) * residual / (little * plan.duration) if little else 0.0
    lowest = (floor or {}).get("p50_ms")
    return Facts(
        planned=plan.planned(),
        sent=sum(health.sent for health in healths),
        recorded=len(rows),
        measured=len(good),
        lag_p99_ms=float(np.quantile(window.lag, 0.99)) * 1e3 if len(window) else 0.0,
        latency_p50_ms=median.value * 1e3 if median else None,
        processor_share=max((health.processor_share for health in healths), default=0.0),
        loop_lag_p99_ms=max((health.loop_lag_p99_ms for health in healths), default=0.0),
        in_flight=sum(health.in_flight_ns for health in healths) / (end - start),
        little=little,
        little_noise=noise,
        early_in_flight=mean_in_flight(rows, start, start + third),
        late_in_flight=mean_in_flight(rows, end - third, end),
        floor_p50_ms=lowest,
        thread_pool=min((health.thread_pool for health in healths), default=0),
    )


def _latencies(good: Table) -> dict[str, Any]:
    return {"from_intended": spread(good.latency), "service": spread(good.service)}


def _class(traffic: TrafficClass, rows: Table, start: int, end: int) -> dict[str, Any]:
    window = rows.due_within(start, end)
    return {
        "task": traffic.task,
        "sent": len(window),
        "ok": int(window.ok.sum()),
        "by_code": _codes(window),
        "answered_per_second": completed_rate(rows, start, end),
        "target_tokens_per_second": token_rate(rows, start, end),
        "server": _server(window.select(window.ok)),
    }


def _server(good: Table) -> dict[str, Any]:
    return {
        "queue": spread(good.queue),
        "encode": spread(good.encode),
        "decode": spread(good.decode),
        "mean_batch_rows": float(good.rows.mean()) if len(good) else None,
        "max_batch_rows": float(good.rows.max()) if len(good) else None,
    }


def _codes(rows: Table) -> dict[str, int]:
    codes: list[str] = rows.code.tolist()
    return dict(Counter(codes).most_common())


def _slowest(window: Table) -> list[dict[str, Any]]:
    order = np.argsort(-window.latency, kind="stable")[:SLOWEST]
    return [
        {
            "due_seconds": round(float(window.due[i]) / 1e9, 3),
            "class": str(window.traffic[i]),
            "payload": int(window.payload[i]),
            "code": str(window.code[i]),
            # An unanswered request took at least this long.
            "at_least": bool(window.code[i] == CENSORED),
            "latency_ms": round(float(window.latency[i]) * 1e3, 3),
            "send_lag_ms": round(float(window.lag[i]) * 1e3, 3),
            "queue_ms": round(float(window.queue[i]) * 1e3, 3),
            "encode_ms": round(float(window.encode[i]) * 1e3, 3),
            "decode_ms": round(float(window.decode[i]) * 1e3, 3),
            "rest_ms": round(float(window.rest[i]) * 1e3, 3),
            "batch_rows": round(float(window.rows[i]), 1),
            "target_tokens": int(window.tokens[i]),
        }
        for i in order.tolist()
    ]


def _stated(found: dict[str, Any]) -> list[str]:
    stated = [f"{name} {value['value']:.1f} ms" for name, value in found["percentiles"].items() if value]
    return [*stated, f"maximum {found['max_ms']:.1f} ms"] if found["n"] else []


def _sentence(plan: Plan, figures: dict[str, Any], verdict: Verdict) -> str:
    counts = figures["counts"]
    load = (
        f"{plan.arrivals.capitalize()} arrivals at {plan.rate:g} requests/s"
        if plan.loop == "open"
        else f"{plan.users} calls kept in flight"
    )
    # Kinds of requests that differ have no percentile in common that would say anything of either.
    kinds = [traffic.name for traffic in plan.classes] if len(plan.classes) > 1 else ["all"]
    told = {kind: ", ".join(_stated(figures["latency"][kind]["from_intended"])) for kind in kinds}
    stated = [f"{kind} {text}" if len(kinds) > 1 else text for kind, text in told.items() if text]
    if verdict.overloaded:
        stated = ["growing as long as the load lasts, since the server did not keep up (OVERLOADED)"]
    since = "from the intended send time" if plan.loop == "open" else "from sending"
    share = counts["ok"] / counts["measured"] if counts["measured"] else 0.0
    latency = f"latency {since}: {'; '.join(stated)}" if stated else "no latency"
    return (
        f"{load} for {plan.duration:g} s: {figures['rates']['answered_per_second']:.1f} answers/s, "
        f"{counts['ok']} of {counts['measured']} requests answered well ({share:.1%}), {latency}. {verdict.level.name}."
    )

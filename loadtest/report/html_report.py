"""Renders a run as one self-contained HTML page: no network, no scripts, no other files.

Computes no figures: they come in with the verdict, and `regard.loadtest.report.plots` draws them.
"""

from collections.abc import Sequence
from typing import Any

from regard.loadtest.load.gauges import Health
from regard.loadtest.load.load import window_of
from regard.loadtest.load.plan import Plan
from regard.loadtest.report.analysis import PERCENTILES, Table, name_of, needed
from regard.loadtest.report.page import NOTHING, Grid, fill_page, json_text, milliseconds
from regard.loadtest.report.plots import generator_svg, latency_svg, server_svg, time_svg
from regard.loadtest.report.report_setting import environment_table, plan_table
from regard.loadtest.report.summary import Summary
from regard.loadtest.report.verdict import Check

LEVELS = {
    "VALID": "these figures may be quoted",
    "WARN": "to be quoted together with the reasons",
    "INVALID": "not to be quoted",
}
OPEN_TEXT = (
    "Counted from the time at which a request should have been sent. Service time counts from when it was sent; where "
    "the two differ, the load test itself was late. Failed requests are in neither."
)
CLOSED_TEXT = (
    "A closed loop sends a request when the last one is answered, so what a stall delays is never counted as late. "
    "It shows throughput; an open loop shows latency."
)
INTERVAL_TEXT = (
    "Below a percentile: the interval that holds the true one with 95 % confidence if requests were independent. Under "
    "load they are not quite, so it is a little narrow. A percentile is stated if ten values lie beyond it."
)
COLUMNS = {
    "due_seconds": "due at, s",
    "class": "class",
    "payload": "request",
    "code": "status",
    "latency_ms": "latency, ms",
    "send_lag_ms": "sent late, ms",
    "queue_ms": "queue, ms",
    "encode_ms": "encode, ms",
    "decode_ms": "decode, ms",
    "rest_ms": "rest, ms",
    "batch_rows": "rows",
    "target_tokens": "tokens",
}


def render(*, plan: Plan, rows: Table, healths: Sequence[Health], summary: Summary, environment: dict[str, Any]) -> str:
    """Return the page."""
    figures = summary.figures
    window = rows.due_within(*window_of(plan))
    good = window.select(window.ok)
    drawable = len(good) > 1
    level = summary.verdict.level.name
    return fill_page(
        level=level,
        advice=LEVELS[level],
        date=json_text(environment.get("date", "")),
        sentence=summary.sentence,
        reasons=summary.verdict.reasons,
        tiles=_tiles(plan, figures),
        latency_text=OPEN_TEXT if plan.loop == "open" else CLOSED_TEXT,
        latency=_latency_table(figures),
        interval_text=INTERVAL_TEXT,
        latency_svg=latency_svg(plan, good) if drawable else None,
        time_svg=time_svg(plan, rows) if len(rows) else None,
        server_text=_server_text(figures),
        server=_server_table(plan, figures),
        server_svg=server_svg(plan, good) if drawable and good.rows.any() else None,
        differing=_differing(figures),
        classes=_class_table(figures),
        statuses=_status_table(figures),
        slowest=_slowest(figures),
        generator_text=_generator_text(figures),
        checks=Grid(["", "check", "found", "limit"], [_check_row(check) for check in summary.verdict.checks]),
        generator_svg=generator_svg(plan, healths),
        environment=environment_table(environment),
        plan=plan_table(plan),
        command=environment.get("command", ""),
    )


def _tiles(plan: Plan, figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the large figures at the top: name, figure, explanation."""
    spread = figures["latency"]["all"]["from_intended"]
    since = "from the intended send time" if plan.loop == "open" else "from sending"
    offered = figures["rates"]["offered_per_second"]
    load = f"{plan.users} calls kept in flight" if offered is None else f"{offered:.1f}/s offered"
    counts = figures["counts"]
    percentiles = [(name, _stated(spread, name), since) for name in ("p50", "p95", "p99")]
    if len(plan.classes) > 1:
        # Kinds of requests that differ have no percentile in common that would say anything of either.
        of_classes = ((traffic.name, figures["latency"][traffic.name]["from_intended"]) for traffic in plan.classes)
        percentiles = [(f"p50 of {name}", _stated(found, "p50"), since) for name, found in of_classes]
    return [
        ("answers/s", f"{figures['rates']['answered_per_second']:.1f}", load),
        *percentiles,
        ("maximum", milliseconds(spread["max_ms"]), "of all good answers"),
        ("failed", f"{counts['failed']}", f"of {counts['recorded']} requests"),
    ]


def _latency_table(figures: dict[str, Any]) -> Grid:
    names = [name_of(p) for p in PERCENTILES]
    latencies = figures["latency"]
    # With one class its rows would repeat those of all.
    shown = {name: latencies[name] for name in latencies if name == "all" or len(latencies) > 2}
    rows = [
        [
            traffic,
            kind.replace("_", " "),
            f"{spread['n']}",
            milliseconds(spread["mean_ms"]),
            *(_percentile(spread, p) for p in PERCENTILES),
            milliseconds(spread["max_ms"]),
        ]
        for traffic, kinds in shown.items()
        for kind, spread in kinds.items()
    ]
    return Grid(["class", "counted", "n", "mean", *names, "maximum"], rows)


def _percentile(spread: dict[str, Any], p: float) -> str:
    found = spread["percentiles"].get(name_of(p))
    if found is None:
        return f"n too small\n{needed(p)} needed"
    return f"{milliseconds(found['value'])}\n{found['low']:.4g} {NOTHING} {found['high']:.4g}"


def _stated(spread: dict[str, Any], name: str) -> str:
    found = spread["percentiles"].get(name)
    return milliseconds(found["value"]) if found else f"{NOTHING}\nn too small"


def _server_text(figures: dict[str, Any]) -> str:
    rows = figures["server"]["mean_batch_rows"]
    if not rows:
        return "This server does not say where its time went."
    return f"From the replies. A request shared its decode steps with {rows:.1f} rows on average, its own included."


def _server_table(plan: Plan, figures: dict[str, Any]) -> Grid | None:
    if not figures["server"]["mean_batch_rows"]:
        return None
    names = [name_of(p) for p in PERCENTILES[:4]]
    of_classes = {name: found["server"] for name, found in figures["classes"].items()} if len(plan.classes) > 1 else {}
    rows = [
        [
            name,
            part,
            milliseconds(server[part]["mean_ms"]),
            *(_stated(server[part], percentile) for percentile in names),
            milliseconds(server[part]["max_ms"]),
        ]
        for name, server in {"all": figures["server"], **of_classes}.items()
        for part in ("queue", "encode", "decode")
    ]
    return Grid(["class", "time spent", "mean", *names, "maximum"], rows)


def _differing(figures: dict[str, Any]) -> str:
    if count := figures["counts"]["differing_answers"]:
        return f"The same request got another answer {count} times: an answer must not depend on what runs beside it."
    return "Every request that was sent more than once got the same answer each time."


def _class_table(figures: dict[str, Any]) -> Grid:
    rows = [
        [
            name,
            found["task"],
            f"{found['sent']}",
            f"{found['ok']}",
            f"{found['answered_per_second']:.1f}",
            f"{found['target_tokens_per_second']:.0f}",
            ", ".join(f"{code} {count}" for code, count in found["by_code"].items()),
        ]
        for name, found in figures["classes"].items()
    ]
    header = [
        "class, in the measured window",
        "asks for",
        "sent",
        "answered well",
        "answers/s",
        "tokens/s",
        "by status",
    ]
    return Grid(header, rows)


def _status_table(figures: dict[str, Any]) -> Grid:
    examples = {code: text for worker in figures["generator"] for code, text in worker["examples"].items()}
    total = figures["counts"]["recorded"]
    rows = [
        [code, f"{count}", f"{count / total:.2%}", examples.get(code, "")]
        for code, count in figures["counts"]["by_code"].items()
    ]
    return Grid(["status, in the whole run", "requests", "share", "the first message"], rows)


def _slowest(figures: dict[str, Any]) -> Grid:
    return Grid(list(COLUMNS.values()), [[json_text(one[name]) for name in COLUMNS] for one in figures["slowest"]])


def _generator_text(figures: dict[str, Any]) -> str:
    floor = figures["floor"]
    text = "Checks of the measurement, not of the server."
    if not floor or floor["p50_ms"] is None:
        return text
    return (
        f"{text} Against a server that does nothing ({floor['what']}) the same generator measures a median of "
        f"{floor['p50_ms']:.2f} ms: nothing faster than that can be seen."
    )


def _check_row(check: Check) -> list[str]:
    return [check.level.name, check.question, check.found, check.limit]

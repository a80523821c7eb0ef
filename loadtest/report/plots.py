"""Draws the figures of a load test.

It does not know the verdict, nor any page around the figures.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# matplotlib leaves parts of its signatures open.

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import NDArray

from regard.loadtest.load.gauges import Health
from regard.loadtest.load.plan import Plan
from regard.loadtest.report.analysis import Floats, Table, in_flight_at, needed
from regard.loadtest.report.drawing import INK, LINE, MUTED, plain_log, svg

INTENDED, SERVICE, BAD = "#2f5fde", "#e08a1e", "#d0342c"
SHADES = (INTENDED, SERVICE, "#5aa9a4", "#8a5fc0")
PARTS = {
    "sent too late": "#9aa3b2",
    "server: queue": "#e8b04a",
    "server: encode": "#5aa9a4",
    "server: decode": "#2f5fde",
    "transport and rest": "#c9cfda",
}
# A logarithm needs something: a microsecond, in milliseconds.
LEAST = 1e-3


def latency_svg(plan: Plan, good: Table) -> str:
    """Distribution of the latency of good answers, from the intended send time and from the actual one, by class."""

    def curves() -> list[tuple[str, Floats, str, str]]:
        if len(plan.classes) == 1:
            both = [("from the intended send time", good.latency, INTENDED), ("service time", good.service, SERVICE)]
            return [(*curve, "-") for curve in reversed(both if plan.loop == "open" else both[1:])]
        parts = _by_class(plan, good)
        # A name with a line before it is in no legend.
        service = [(f"_{name}", part.service, colour, ":") for name, part, colour in parts if plan.loop == "open"]
        return [
            *service,
            *((name, part.latency if service else part.service, colour, "-") for name, part, colour in parts),
        ]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for label, seconds, colour, dashes in curves():
            ordered = np.maximum(np.sort(seconds) * 1e3, LEAST)
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            left.step(ordered, share, where="post", color=colour, linestyle=dashes, label=label)
            beyond = 1 / (1 - share[:-1])
            right.step(beyond, ordered[:-1], where="post", color=colour, linestyle=dashes, label=label)
        left.set_xscale("log")
        dotted = ", dotted: service time" if len(plan.classes) > 1 and plan.loop == "open" else ""
        left.set(title=f"Share of answers within a time{dotted}", xlabel="milliseconds", ylabel="share", ylim=(0, 1.02))
        left.legend(loc="lower right")
        plain_log(left, "x")
        right.set_xscale("log")
        right.set_yscale("log")
        right.set(title="Percentiles, the tail stretched out", xlabel="percentile", ylabel="milliseconds")
        marks = [p for p in (0.5, 0.9, 0.99, 0.999) if len(good) >= needed(p)]
        right.set_xticks([1 / (1 - p) for p in marks], [f"p{p * 100:g}" for p in marks])
        right.xaxis.set_minor_locator(NullLocator())
        plain_log(right, "y")

    return svg(draw, height=3.4)


def time_svg(plan: Plan, rows: Table) -> str:
    """What was offered, answered and in flight over time, and every request's latency."""

    def draw(figure: Figure) -> None:
        rates, flight, points = figure.subplots(3, 1, sharex=True, height_ratios=(1, 0.8, 1.4))
        last = max(plan.seconds, float(rows.end.max()) / 1e9)
        edges = np.arange(0, int(np.ceil(last)) + 1, dtype=np.float64)
        good = rows.select(rows.ok)
        for label, times, colour in (("offered", rows.due, MUTED), ("answered well", good.end, INTENDED)):
            rates.stairs(np.histogram(times / 1e9, edges)[0], edges, color=colour, label=label)
        rates.set(title="Requests a second", ylim=(0, None))
        moments = np.linspace(0, last * 1e9, 600).astype(np.int64)
        flight.fill_between(
            moments / 1e9, in_flight_at(rows, moments), color=INTENDED, alpha=0.25, linewidth=0, step="post"
        )
        flight.set(title="Calls in flight", ylim=(0, None))
        several = len(plan.classes) > 1
        for name, part, colour in _by_class(plan, good):
            points.scatter(
                part.due / 1e9,
                np.maximum(part.latency * 1e3, LEAST),
                s=5,
                color=colour,
                alpha=0.45,
                linewidths=0,
                rasterized=True,
                label=name if several else None,
            )
        bad = rows.select(~rows.ok)
        if len(bad):
            points.scatter(
                bad.due / 1e9,
                np.maximum(bad.latency * 1e3, LEAST),
                s=14,
                color=BAD,
                marker="x",
                linewidths=1,
                label="not answered well",
            )
        if several or len(bad):
            for handle in points.legend(loc="upper right", ncols=4, markerscale=2, fontsize=8).legend_handles:
                if handle is not None:
                    handle.set_alpha(1)
        points.set_yscale("log")
        points.set(title="Latency of every request, by the time it was due", xlabel="seconds", ylabel="milliseconds")
        plain_log(points, "y")
        for axes in (rates, flight, points):
            axes.axvspan(0, plan.warmup, color=LINE, alpha=0.6, linewidth=0)
            axes.axvline(plan.seconds, color=MUTED, linewidth=0.8, linestyle=":")
        if plan.warmup:
            points.text(0, 0.97, " warm-up", transform=points.get_xaxis_transform(), va="top", color=MUTED, fontsize=8)
        points.set_xlim(0, last)
        rates.legend(loc="upper right", ncols=2)
        flight.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))

    return svg(draw, height=6.2)


def server_svg(plan: Plan, good: Table) -> str:
    """Where the time of typical and of slow requests goes, or of each class, and what company they had in a batch."""

    def draw(figure: Figure) -> None:
        time, rows, queue = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
        order = np.argsort(good.latency)
        groups = {
            "slowest 1 %": order[int(len(order) * 0.99) :],
            "middle fifth": order[int(len(order) * 0.4) : int(len(order) * 0.6)],
        }
        if len(plan.classes) > 1:
            groups = {traffic.name: np.flatnonzero(good.traffic == traffic.name) for traffic in reversed(plan.classes)}
        for place, indices in enumerate(groups.values()):
            left = 0.0
            for name, value in _parts(good, indices).items():
                time.barh(place, value, left=left, color=PARTS[name], label=name if place == 0 else None, height=0.55)
                left += value
            time.annotate(f" {left:.1f} ms", (left, place), va="center", color=INK)
        time.set_yticks(range(len(groups)), list(groups))
        time.set(title="Where the time goes", xlabel="milliseconds, mean of the group", ylim=(-0.6, len(groups) + 0.4))
        time.margins(x=0.18)
        time.grid(visible=False, axis="y")
        time.legend(loc="upper right", ncols=2, fontsize=7.5, handlelength=1, columnspacing=1)
        parts = _by_class(plan, good)
        rows.hist([part.rows for _, part, _ in parts], bins=16, color=[colour for *_, colour in parts], stacked=True)
        rows.set(title="Rows in a decode step", xlabel="mean rows while a request ran", ylabel="requests")
        for name, part, colour in parts:
            queue.scatter(
                part.rows, part.queue * 1e3, s=6, alpha=0.4, color=colour, linewidths=0, rasterized=True, label=name
            )
        if len(parts) > 1:
            queue.legend(loc="upper left", fontsize=7.5, markerscale=2)
        queue.set(title="Wait before the first step", xlabel="mean rows", ylabel="milliseconds")
        queue.set_ylim(bottom=0)

    return svg(draw, height=3.0)


def generator_svg(plan: Plan, healths: Sequence[Health]) -> str:
    """Processor time and loop lag of the processes that made the load."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for number, health in enumerate(healths):
            if not health.series:
                continue
            shade = SHADES[number % len(SHADES)]
            seconds, share, lag = (np.array(column) for column in zip(*health.series, strict=True))
            left.plot(seconds, share * 100, linewidth=1.3, color=shade, label=f"worker {health.worker}")
            right.plot(seconds, lag, linewidth=1.3, color=shade)
        left.axhline(60, color=BAD, linewidth=0.8, linestyle=":")
        left.set(title="Processor time of the generator", xlabel="seconds", ylabel="% of a core", ylim=(0, 105))
        right.set(title="Worst lag of its loop", xlabel="seconds", ylabel="milliseconds", ylim=(0, None))
        for axes in (left, right):
            axes.axvspan(0, plan.warmup, color=LINE, alpha=0.6, linewidth=0)
            axes.set_xlim(0, plan.seconds)
        if len(healths) > 1:
            left.legend(loc="upper right")

    return svg(draw, height=2.4)


def _by_class(plan: Plan, rows: Table) -> list[tuple[str, Table, str]]:
    """The rows of each class that has any, and a colour for it."""
    parts = [(traffic.name, rows.select(rows.traffic == traffic.name)) for traffic in plan.classes]
    shades = [SHADES[number % len(SHADES)] for number in range(len(parts))]
    return [(name, part, shade) for (name, part), shade in zip(parts, shades, strict=True) if len(part)]


def _parts(good: Table, indices: NDArray[np.int64]) -> dict[str, float]:
    def mean(seconds: Floats) -> float:
        return float(seconds[indices].mean()) * 1e3 if len(indices) else 0.0

    columns = (good.lag, good.queue, good.encode, good.decode, good.rest)
    return {name: mean(seconds) for name, seconds in zip(PARTS, columns, strict=True)}

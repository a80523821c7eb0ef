"""Reads from a trace of ONNX Runtime how long each operator of a graph took.

Does not know the graph, nor who ran it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

_KERNEL = "_kernel_time"
_RUN = "model_run"
_MICROSECOND = 1e-6


class GraphTimes(NamedTuple):
    """Where the time of a graph went; seconds in all of its runs.

    Attributes:
        runs: how often it ran.
        seconds: in these runs.
        operators: seconds in the kernels of each operator, most first.
        nodes: seconds in each node, most first, by operator and name.
    """

    runs: int
    seconds: float
    operators: dict[str, float]
    nodes: dict[str, float]


def read_trace(path: Path) -> GraphTimes:
    """Sum up the trace of one session. Raises ValueError if it is none."""
    return sum_events(json.loads(path.read_text(encoding="utf-8")))


def sum_events(events: list[dict[str, Any]]) -> GraphTimes:
    """Sum up the events of one session."""
    operators: dict[str, float] = {}
    nodes: dict[str, float] = {}
    runs, seconds = 0, 0.0
    for event in events:
        name = str(event.get("name", ""))
        took = float(event.get("dur", 0)) * _MICROSECOND
        if event.get("cat") == "Session" and name == _RUN:
            runs += 1
            seconds += took
        elif event.get("cat") == "Node" and name.endswith(_KERNEL):
            operator = str(event["args"]["op_name"])
            operators[operator] = operators.get(operator, 0.0) + took
            node = f"{operator} {name.removesuffix(_KERNEL)}"
            nodes[node] = nodes.get(node, 0.0) + took
    return GraphTimes(runs, seconds, _most_first(operators), _most_first(nodes))


def _most_first(found: dict[str, float]) -> dict[str, float]:
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))

"""Puts what `regard bench engine` measured into JSON, and says which tables are in it.

It does not know how anything was measured or is drawn.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from regard.benches.engine.comparison import Agreement, Measured
from regard.benches.engine.plan import Plan, Sentences

SCHEMA = 1
GREEDY = "rows"


class Table(NamedTuple):
    """Settings that differ only in rows and precision.

    Attributes:
        key: in the JSON.
        title: for people.
        cells: by rows and precision.
    """

    key: str
    title: str
    cells: dict[int, dict[str, dict[str, Any]]]


def as_json(
    measured: Sequence[Measured], agreements: Sequence[Agreement], plan: Plan, sentences: Sentences
) -> dict[str, Any]:
    """All figures; the ratios alone by table, rows and precision: {"rows": {"32": {"int8": 1.2}}}."""
    cells = [
        {
            **entry.setting._asdict(),
            "ratio": round(entry.ratio.median, 4),
            "low": round(entry.ratio.low, 4),
            "high": round(entry.ratio.high, 4),
            "pairs": entry.ratio.pairs,
            "ours": round(entry.ours, 1),
            "theirs": round(entry.theirs, 1),
            "sentences": entry.sentences,
        }
        for entry in measured
    ]
    ratios: dict[str, Any] = {}
    for cell in cells:
        by_rows = ratios.setdefault(_key(cell), {})
        by_rows.setdefault(str(cell["rows"]), {})[cell["precision"]] = cell["ratio"]
    return {
        "schema": SCHEMA,
        **ratios,
        "measured": cells,
        "agreement": [asdict(entry) for entry in agreements],
        "sentences": {
            "origin": sentences.origin,
            "distinct": len(sentences.sources),
            "source_tokens": sentences.tokens,
            "target_tokens": plan.length,
        },
        "clock": plan.clock,
    }


def join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put figures of several runs together, each with settings of its own; what is said of all is the first one's.

    Raises ValueError if a setting was measured twice, or other sentences, clocks or models were.
    """
    first, *others = parts
    joined: dict[str, Any] = {**first, "measured": list(first["measured"]), "environment": dict(first["environment"])}
    profiles = list(first.get("profiles", ()))
    for other in others:
        for name in ("schema", "sentences", "clock", "ours", "theirs", "vocabulary_map"):
            if first.get(name) != other.get(name):
                raise ValueError(f"runs with other {name} cannot stand in one table")
        joined["measured"] += other["measured"]
        joined["environment"]["command"] += f"\n{other['environment']['command']}"
        profiles += other.get("profiles", ())
        known = {entry["precision"] for entry in joined["agreement"]}
        joined["agreement"] = joined["agreement"] + [e for e in other["agreement"] if e["precision"] not in known]
        for name, value in other.items():
            if name not in joined:
                joined[name] = value
    settings = [tuple(cell[name] for name in ("precision", "workers", "beams", "rows")) for cell in joined["measured"]]
    if len(set(settings)) < len(settings):
        raise ValueError("the runs measured a setting twice")
    for cell in joined["measured"]:
        joined.setdefault(_key(cell), {}).setdefault(str(cell["rows"]), {})[cell["precision"]] = cell["ratio"]
    return joined | ({"profiles": profiles} if profiles else {})


def tables(figures: dict[str, Any]) -> list[Table]:
    """The tables of such JSON, greedy search with one worker first.

    Raises ValueError if it is of another kind.
    """
    if figures.get("schema") != SCHEMA or "measured" not in figures:
        raise ValueError(f"these are no figures of `regard bench engine` of schema {SCHEMA}")
    found: dict[str, Table] = {}
    for cell in figures["measured"]:
        table = found.setdefault(_key(cell), Table(_key(cell), _title(cell), {}))
        table.cells.setdefault(cell["rows"], {})[cell["precision"]] = cell
    return sorted(found.values(), key=lambda table: table.key != GREEDY)


def _key(cell: dict[str, Any]) -> str:
    parts: list[str] = []
    if cell["workers"] > 1:
        parts.append(f"workers_{cell['workers']}")
    if cell["beams"] > 1:
        parts.append(f"beam_{cell['beams']}")
    return "_".join(parts) or GREEDY


def _title(cell: dict[str, Any]) -> str:
    threads = "one thread" if cell["workers"] == 1 else f"{cell['workers']} workers of one thread each"
    return f"{threads}, {'greedy' if cell['beams'] == 1 else 'beam ' + str(cell['beams'])}"

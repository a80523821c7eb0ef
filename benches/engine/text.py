"""Writes the figures of `regard bench engine` as text for a terminal and as a part of a page.

It does not know how they were measured.
"""

from collections.abc import Sequence
from typing import Any

from regard.benches.engine.figures import Table, tables
from regard.loadtest.base.text_table import text_table

_SHOWN_OPERATORS = 8
_WORTH_SHOWING = 0.01
_CLOCKS = {"wall": "the time that passed", "processor": "processor time"}


def as_text(figures: dict[str, Any]) -> str:
    """Everything for a terminal."""
    parts = [_sentence(figures), ""]
    for table in tables(figures):
        header, rows = _cells(table)
        parts += [f"{table.title}: ours / theirs", text_table(header, rows)]
    parts += [*_agreements(figures), ""]
    for title, header, rows in _profiles(figures):
        parts += [title, text_table(header, rows)]
    return "\n".join(parts).rstrip() + "\n"


def as_page_part(figures: dict[str, Any], *, picture: str) -> str:
    """Everything as Markdown, with a picture; `picture` is its path from the page."""
    environment = figures["environment"]
    parts = [
        "## The engine beside CTranslate2",
        "\n".join(f"    {line}" for line in environment["command"].splitlines()),
        _sentence(figures),
        f"{environment['processor']}, {environment['date'][:10]}. In brackets: between which the median lies with a "
        "confidence of 95 %; then target tokens per second, ours / theirs.",
        f"![Ratio of throughput by rows]({picture})",
    ]
    for table in tables(figures):
        header, rows = _cells(table)
        parts += [f"{table.title[0].upper()}{table.title[1:]}:", _markdown(header, rows)]
    parts.append(" ".join(_agreements(figures)))
    for title, header, rows in _profiles(figures):
        parts += [f"{title}:", _markdown(header, rows)]
    return "\n\n".join(parts) + "\n"


def _sentence(figures: dict[str, Any]) -> str:
    ours, theirs = figures["ours"], figures["theirs"]
    of = figures["sentences"]
    versions = [f"{name} {version}" for side in (ours, theirs) for name, version in side["versions"].items()]
    return (
        f"Throughput of {ours['name']}'s engine ({ours['model']}) by that of {theirs['name']}, same weights, encoding "
        f"included, scores and attention returned on both sides; {of['distinct']} sentences of {of['origin']} of "
        f"{of['source_tokens']} tokens, every translation {of['target_tokens']} tokens long; medians of ratios of "
        f"blocks that take turns, by {_CLOCKS[figures['clock']]}. {_searched(figures)}"
        f"{', '.join(dict.fromkeys(versions))}."
    )


def _searched(figures: dict[str, Any]) -> str:
    """Say among how many tokens each side searches, where that is not all of them."""
    ours, theirs, every = (figures.get(name) for name in ("tokens_searched", "vocabulary_map", "tokens"))
    if not ours or ours == every:
        return ""
    mapped = "the same, by a vocabulary map" if theirs else f"all {every}, as it does unless told otherwise"
    return f"{figures['ours']['name']} searches among the {ours} tokens of the target language, " + (
        f"{figures['theirs']['name']} among {mapped}. "
    )


def _cells(table: Table) -> tuple[list[str], list[list[str]]]:
    precisions = list(dict.fromkeys(precision for cells in table.cells.values() for precision in cells))
    rows = [
        [str(size), *(_cell(cells.get(precision)) for precision in precisions)]
        for size, cells in sorted(table.cells.items())
    ]
    return ["rows", *precisions], rows


def _cell(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return ""
    return f"{cell['ratio']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}] {cell['ours']:,.0f} / {cell['theirs']:,.0f}"


def _agreements(figures: dict[str, Any]) -> list[str]:
    return [
        f"{entry['precision']}, greedy: {entry['differing']} of {entry['sentences']} sentences differ, "
        f"{entry['tokens']:.2%} of tokens are equal."
        for entry in figures["agreement"]
    ]


def _profiles(figures: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Where the time goes: title, header and rows for each setting that was traced."""
    found: list[tuple[str, list[str], list[list[str]]]] = []
    for profile in figures.get("profiles", []):
        whole = profile["seconds"]
        rows: list[list[str]] = []
        inside = 0.0
        for name, graph in profile["graphs"].items():
            inside += graph["seconds"]
            kernels = sum(graph["operators"].values())
            shown = [(o, s) for o, s in graph["operators"].items() if s >= _WORTH_SHOWING * whole][:_SHOWN_OPERATORS]
            rows += [[name, operator, _share(seconds, whole)] for operator, seconds in shown]
            rest = kernels - sum(seconds for _, seconds in shown)
            rows += [[name, "other operators", _share(rest, whole)]]
            rows += [[name, "between operators", _share(graph["seconds"] - kernels, whole)]]
        rows.append(["engine", "search, rows, queue", _share(whole - inside, whole)])
        title = f"Where the time goes, {profile['precision']}, {profile['rows']} rows"
        title += f", beam {profile['beams']}" if profile["beams"] > 1 else ""
        found.append((title, ["part", "operator", "share"], rows))
    return found


def _share(seconds: float, whole: float) -> str:
    return f"{100 * seconds / whole:.1f} %"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

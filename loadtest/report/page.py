"""Pieces of HTML: a document, sections, tables, numbers as people read them.

It does not know what is reported.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any, cast

NOTHING = "\N{EN DASH}"


def document(title: str, body: Iterable[str]) -> str:
    """A page that needs no other file."""
    style = files("regard.loadtest.report").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title><style>\n{style}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def section(title: str, text: str, *parts: str) -> str:
    """A part of the page with a line that says what is in it; parts are HTML already."""
    intro = f"<p>{escape(text)}</p>" if text else ""
    return f"<section><h2>{escape(title)}</h2>{intro}{''.join(parts)}</section>\n"


def note(text: str) -> str:
    """Small print."""
    return f'<p class="note">{escape(text)}</p>'


def badge(level: str) -> str:
    """A verdict."""
    return f'<span class="badge {level}">{level}</span>'


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Large figures side by side: name, figure, explanation."""
    boxes = [
        f'<div class="tile"><b>{_lines(figure)}</b><span>{escape(name)}</span><small>{escape(text)}</small></div>'
        for name, figure, text in entries
    ]
    return f'<div class="tiles">{"".join(boxes)}</div>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, badges: bool = False) -> str:
    """A table of plain text; further lines of a cell are small. With `badges` the first column holds verdicts."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body: list[str] = []
    for row in rows:
        cells = [f"<td>{_lines(cell)}</td>" for cell in row]
        if badges:
            cells[0] = f"<td>{badge(row[0])}</td>"
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{"".join(body)}</tbody></table></div>'


def milliseconds(value: float | None) -> str:
    """A time in milliseconds as text."""
    if value is None:
        return NOTHING
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def plain(value: Any) -> str:
    """A JSON value as text."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return ", ".join(plain(part) for part in parts)
    return str(value)


def _lines(cell: str) -> str:
    first, *rest = cell.split("\n")
    return escape(first) + "".join(f"<small>{escape(line)}</small>" for line in rest)

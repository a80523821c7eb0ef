"""Fills the template of the report, report.html, and formats the numbers that go into it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from jinja2 import Environment, PackageLoader, StrictUndefined

NOTHING = "\N{EN DASH}"


class Grid(NamedTuple):
    """A table of plain text; in the page, further lines of a cell are small."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def fill_page(**parts: Any) -> str:
    """Return the page as one HTML document with its styles inside; all text is escaped, only drawings are HTML."""
    environment = Environment(
        loader=PackageLoader("regard.loadtest.report", "."),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("report.html").render(parts).lstrip()


def milliseconds(value: float | None) -> str:
    """Format a time in milliseconds, as seconds from one second."""
    if value is None:
        return NOTHING
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def json_text(value: Any) -> str:
    """Format a JSON value: floats briefly, lists with commas."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return ", ".join(json_text(part) for part in parts)
    return str(value)

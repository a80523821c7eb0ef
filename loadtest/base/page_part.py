"""Replaces the part of a Markdown page between two marker comments and leaves the rest of the page as it is."""

from pathlib import Path

from regard.atomic import write_text


def replace_part(page: Path, name: str, text: str) -> None:
    """Put text between the marks of a name, or with its marks at the end of the page where it has none yet.

    Raises ValueError for a page with half a pair of marks.
    """
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, with_part(old, name, text))


def with_part(page: str, name: str, text: str) -> str:
    """Return the page with its part replaced. Raises ValueError as `replace_part` does."""
    begin, end = f"<!-- {name}: begin, made by a command -->", f"<!-- {name}: end -->"
    part = f"{begin}\n{text.strip()}\n{end}"
    counts = page.count(begin), page.count(end)
    if counts == (0, 0):
        return f"{page.rstrip()}\n\n{part}\n".lstrip("\n")
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if counts != (1, 1) or not found:
        raise ValueError(f"the page has {counts[0]} times {begin!r} and {counts[1]} times {end!r}, not one pair")
    return f"{before}{part}{after}"

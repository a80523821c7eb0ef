"""Lays rows of text out as a table for a terminal.

It does not know what they mean, nor how wide the terminal is.
"""

import textwrap
from collections.abc import Sequence

WIDEST = 60


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, widest: int = WIDEST) -> str:
    """Columns as wide as their longest cell, up to a limit beyond which cells are broken into lines."""
    widths = [
        max(len(line) for cell in column for line in textwrap.wrap(cell, widest) or [""])
        for column in zip(header, *rows, strict=True)
    ]
    return table_head(header, widths) + "".join(table_row(row, widths) for row in rows)


def table_head(header: Sequence[str], widths: Sequence[int]) -> str:
    """The names of columns of given widths, and a rule below them."""
    return table_row(header, widths) + "  ".join("─" * width for width in widths) + "\n"


def table_row(row: Sequence[str], widths: Sequence[int]) -> str:
    """A row in columns of given widths, over as many lines as its cells need."""
    cells = [textwrap.wrap(cell, max(width, 1)) or [""] for cell, width in zip(row, widths, strict=True)]
    lines = [
        "  ".join(
            (cell[i] if i < len(cell) else "").ljust(width) for cell, width in zip(cells, widths, strict=True)
        ).rstrip()
        for i in range(max(map(len, cells)))
    ]
    return "\n".join(lines) + "\n"

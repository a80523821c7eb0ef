"""Lays rows of text out as a table for a terminal.

It does not know what they mean, nor how wide the terminal is.
"""

import textwrap
from collections.abc import Sequence

WIDEST = 60


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, widest: int = WIDEST) -> str:
    """Columns as wide as their longest cell, up to a limit beyond which cells are broken into lines."""
    cells = [[textwrap.wrap(cell, widest) or [""] for cell in row] for row in (header, *rows)]
    widths = [max(len(line) for row in cells for line in row[column]) for column in range(len(header))]
    lines: list[str] = []
    for number, row in enumerate(cells):
        for i in range(max(len(cell) for cell in row)):
            parts = [(cell[i] if i < len(cell) else "").ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join(parts).rstrip())
        if number == 0:
            lines.append("  ".join("─" * width for width in widths))
    return "\n".join(lines) + "\n"

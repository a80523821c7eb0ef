"""Shows how far a long command is: a bar on a terminal, nothing elsewhere.

It does not know what is being done.
"""

import sys
import time
from collections.abc import Callable
from typing import TextIO

WIDTH = 28
REDRAW_SECONDS = 0.1


class Progress:
    """A bar on stderr.

    Args:
        label: what goes on.
        total: of whatever is counted.
        stream: where to show it; nothing is written to one that is no terminal.
        shown: whether to show it at all.
        clock: seconds.
    """

    def __init__(
        self,
        label: str,
        total: float,
        *,
        stream: TextIO | None = None,
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = label
        self._total = max(total, 1e-9)
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began = clock()
        self._shown_at = -float("inf")
        self._complete = False
        self._visible = shown and self._stream.isatty()

    def show(self, done: float, note: str = "") -> None:
        """So much is done; drawn only as often as it can be read."""
        if not self._visible:
            return
        now = self._clock()
        complete = done >= self._total and not self._complete
        self._complete |= complete
        if now - self._shown_at < REDRAW_SECONDS and not complete:
            return
        self._shown_at = now
        share = min(max(done / self._total, 0.0), 1.0)
        left = (now - self._began) * (1 / share - 1) if share > 0 else 0.0
        bar = "█" * round(share * WIDTH)
        line = f"{self._label} {bar:░<{WIDTH}} {share:4.0%}  {note}"
        if 0 < share < 1:
            line += f"  {left:.0f} s left"
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()

    def close(self) -> None:
        """Leave the line."""
        if self._visible:
            self._stream.write("\n")
            self._stream.flush()

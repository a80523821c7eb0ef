"""Counts on stderr, with a bar where the end is known, while a long run has nobody else to tell how far it is.

Does not know what it counts; needs no package, because a client is to stay light.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

_QUIET_SECONDS = 2.0
_EVERY_SECONDS = 0.5
_BAR = 30  # columns


class Progress:
    """A counter that shows itself after two seconds, and only if `shown`.

    Args:
        stream: where to show it.
        shown: whether a person is looking.
        unit: what is counted.
        total: how many there will be, if that is known.
        clock: seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        shown: bool,
        unit: str = "lines",
        total: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._shown = shown
        self._unit = unit
        self._total = total
        self._clock = clock
        self._start = clock()
        self._next = self._start + _QUIET_SECONDS
        self._drawn = 0

    def update(self, done: int) -> None:
        """Tell that so many are done in all."""
        now = self._clock()
        if self._shown and now >= self._next:
            text = self._text(done, done / (now - self._start))
            self._stream.write(f"\r{text.ljust(self._drawn)}")
            self._stream.flush()
            self._drawn = len(text)
            self._next = now + _EVERY_SECONDS

    def _text(self, done: int, rate: float) -> str:
        shown_rate = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"
        if not self._total:
            return f"{done:,} {self._unit}, {shown_rate}"
        bar = "█" * (_BAR * done // self._total)
        return f"{bar.ljust(_BAR, '░')} {done:,} of {self._total:,} {self._unit}, {shown_rate}"

    def clear(self) -> None:
        """Remove the counter, so that something else can be written."""
        if self._drawn:
            self._stream.write(f"\r{' ' * self._drawn}\r")
            self._stream.flush()
            self._drawn = 0

"""Counts lines on stderr while a long run has nobody else to tell how far it is.

Does not know what a line is worth; needs no package, because a client is to stay light.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

_QUIET_SECONDS = 2.0
_EVERY_SECONDS = 0.5


class Progress:
    """A counter that shows itself after two seconds, and only if `shown`.

    Args:
        stream: where to show it.
        shown: whether a person is looking.
        clock: seconds.
    """

    def __init__(self, stream: TextIO, *, shown: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._shown = shown
        self._clock = clock
        self._start = clock()
        self._next = self._start + _QUIET_SECONDS
        self._drawn = 0

    def update(self, lines: int) -> None:
        """Tell that so many lines are done in all."""
        now = self._clock()
        if self._shown and now >= self._next:
            text = f"{lines:,} lines, {lines / (now - self._start):,.0f}/s"
            self._stream.write(f"\r{text.ljust(self._drawn)}")
            self._stream.flush()
            self._drawn = len(text)
            self._next = now + _EVERY_SECONDS

    def clear(self) -> None:
        """Remove the counter, so that something else can be written."""
        if self._drawn:
            self._stream.write(f"\r{' ' * self._drawn}\r")
            self._stream.flush()
            self._drawn = 0

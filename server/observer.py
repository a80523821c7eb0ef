"""What the engine reports about itself while it works; the calls come from worker threads and must be quick."""

from __future__ import annotations

from typing import Literal, Protocol

TokenKind = Literal["source", "target"]


class EngineObserver(Protocol):
    """Takes the figures of an engine; thread-safe. Its methods may be called with locks held: they call no engine."""

    def step(self, seconds: float, rows: int, padding_ratio: float) -> None:
        """A decode step took this long over so many rows, of whose source positions this share was padding."""
        ...

    def queued(self, seconds: float) -> None:
        """A segment waited this long before its encoding."""
        ...

    def tokens(self, kind: TokenKind, count: int) -> None:
        """So many tokens were read (`source`) or answered in a best hypothesis (`target`)."""
        ...

    def running(self, count: int) -> None:
        """So many segments have rows."""
        ...

    def waiting(self, count: int) -> None:
        """So many segments wait."""
        ...

"""Estimates how long a segment will wait and be decoded, from what was seen in the last seconds.

It is pure: callers pass the time in.
"""

from __future__ import annotations

# What was seen so long ago counts half.
_HALF_LIFE = 2.0
# Less than this much busy time tells nothing yet.
_LEAST_SECONDS = 0.25
_NEWEST = 0.1


class ServiceRate:
    """How many rows leave the queue in a second while some wait, and how long decoding takes from there.

    Attributes:
        decode_seconds: from leaving the queue to the outcome, a moving average; 0 before anything is known.
    """

    def __init__(self) -> None:
        self._rows = 0.0
        self._seconds = 0.0
        self._since: float | None = None
        self.decode_seconds = 0.0

    def taken(self, rows: int, now: float, *, left: int) -> None:
        """Note that `rows` rows left the queue, and `left` still wait."""
        if self._since is not None:
            passed = max(now - self._since, 0.0)
            kept = 0.5 ** (passed / _HALF_LIFE)
            self._rows = self._rows * kept + rows
            self._seconds = self._seconds * kept + passed
        # While nothing waits, what leaves shows how much came and not how much can be done.
        self._since = now if left else None

    def decoded(self, seconds: float) -> None:
        """Note how long a segment took from leaving the queue to its outcome."""
        self.decode_seconds += (seconds - self.decode_seconds) * (_NEWEST if self.decode_seconds else 1.0)

    def wait(self, rows: int) -> float:
        """Return in how many seconds so many rows will have left the queue; 0 if that is not known."""
        if self._seconds < _LEAST_SECONDS or self._rows <= 0.0:
            return 0.0
        return rows * self._seconds / self._rows

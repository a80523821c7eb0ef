"""Bounds the bytes that calls hold: requests, answers, and replies that are not yet sent."""

from __future__ import annotations

from regard.server.errors import AnswerTooLarge, TooManyCalls

_RETRY_AFTER = 1.0


class ByteBudget:
    """The bytes that all calls together may hold. Use it in the event loop only.

    Args:
        limit: of all calls together; one call may hold half of it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def open(self) -> Reservation:
        """Return the reservation of one call; close it when the call is over."""
        return Reservation(self)


class Reservation:
    """The bytes that one call holds."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._held = 0

    def add(self, count: int) -> None:
        """Reserve so many more bytes.

        Raises:
            AnswerTooLarge: one call may not hold as many, at any time.
            TooManyCalls: together with other calls it would be too many.
        """
        limit = self._budget.limit // 2
        if self._held + count > limit:
            raise AnswerTooLarge(
                f"answering this call takes more than {limit} bytes; send fewer texts or pictures, or ask for a "
                "smaller n_best or less attention"
            )
        if self._budget.held + count > self._budget.limit:
            raise TooManyCalls(
                f"calls in progress hold {self._budget.held} bytes; {count} more would exceed the limit of "
                f"{self._budget.limit}",
                _RETRY_AFTER,
            )
        self._held += count
        self._budget.held += count

    def release(self, count: int) -> None:
        """Release so many bytes; a closed reservation holds none."""
        freed = min(count, self._held)
        self._held -= freed
        self._budget.held -= freed

    def close(self) -> None:
        """Release all that is left."""
        self._budget.held -= self._held
        self._held = 0

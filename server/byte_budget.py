"""Counts the bytes that calls hold (requests, answers, replies on their way) and refuses what would be too many.

It does not know what the bytes are.
"""

from __future__ import annotations

from regard.server.errors import AnswerTooLarge, TooManyCalls

_RETRY_AFTER = 1.0


class ByteBudget:
    """Bytes that all calls together may hold. To be used in the event loop.

    Args:
        limit: of all calls; one call may hold half of it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def open(self) -> Reservation:
        """Return the reservation of one call; close it when the call holds nothing any more."""
        return Reservation(self)


class Reservation:
    """What one call holds."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._held = 0

    def add(self, count: int) -> None:
        """The call holds so many bytes more, or shall not.

        Raises:
            AnswerTooLarge: it would be too many for one call, whenever it comes.
            TooManyCalls: it would be too many together with what other calls hold.
        """
        limit = self._budget.limit // 2
        if self._held + count > limit:
            raise AnswerTooLarge(
                f"answering this call takes more than {limit} bytes; send fewer texts or pictures, or ask for a "
                "smaller n_best or less attention"
            )
        if self._budget.held + count > self._budget.limit:
            raise TooManyCalls(
                f"calls hold {self._budget.held} bytes and {count} more would exceed {self._budget.limit}", _RETRY_AFTER
            )
        self._held += count
        self._budget.held += count

    def release(self, count: int) -> None:
        """The call holds so many bytes less; one that was closed holds nothing."""
        freed = min(count, self._held)
        self._held -= freed
        self._budget.held -= freed

    def close(self) -> None:
        """The call holds nothing any more."""
        self._budget.held -= self._held
        self._held = 0

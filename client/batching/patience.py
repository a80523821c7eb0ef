"""Asks a server that is busy, starting or restarting again, until the time of a call is over.

Does not know what is asked; it gives the seconds that are left for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from regard.client.errors import CannotConnect, NotServing, RegardCallError, ServerBusy

_Reply = TypeVar("_Reply")

_LONGEST_PAUSE = 1.0  # seconds between two questions


class Patience:
    """The patience of one run of many calls, which several threads may share.

    Nobody at an address is an error at once, as it may be mistyped; once somebody has answered there, it is a server
    that restarts.

    Args:
        timeout: of one call in seconds, all its tries included.
        clock: monotonic seconds.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        timeout: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._reached = False

    def ask(self, send: Callable[[float], _Reply]) -> _Reply:
        """Return what `send` returns, which takes a timeout in seconds.

        Raises:
            RegardCallError: no waiting would help, or the time is over; then it is what the server said last.
        """
        deadline = self._clock() + self._timeout
        while True:
            try:
                reply = send(deadline - self._clock())
            except RegardCallError as error:
                pause = min(_LONGEST_PAUSE, error.retry_after or _LONGEST_PAUSE)
                if not self._helps(error) or self._clock() + pause >= deadline:
                    raise
            else:
                self._reached = True
                return reply
            self._sleep(pause)

    def _helps(self, error: RegardCallError) -> bool:
        if isinstance(error, ServerBusy | NotServing):
            self._reached = True
            return True
        return isinstance(error, CannotConnect) and self._reached

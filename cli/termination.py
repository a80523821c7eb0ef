"""Has SIGTERM end a command as Ctrl-C does, so that what it started ends with it.

Knows no command; those that serve or train have ways of their own to stop.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from cli.failure import TERMINATED


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM raise SystemExit inside the block, where Python would end at once and leave private servers behind.

    It does nothing outside the main thread, which alone may handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)

"""Treats SIGTERM like Ctrl-C, so that a measurement that is ended takes with it what it started.

A signal that this process was started to ignore stays ignored, as SIGINT by `&` in a script.
"""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM  # as a shell reports it
_ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM raise SystemExit inside the block, where Python would end at once and leave private servers behind.

    Like `held_back`, it does nothing outside the main thread, which alone may handle signals.
    """
    if threading.current_thread() is not threading.main_thread() or not _heeded(signal.SIGTERM):
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Generator[None]:
    """Let SIGTERM and Ctrl-C wait for the end of the block: between a process's start and a name for it, say."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    before = {number: signal.signal(number, note) for number in _ENDING if _heeded(number)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in arrived[:1]:
            signal.raise_signal(number)


def _heeded(number: int) -> bool:
    """Whether a signal is neither ignored nor handled by code outside Python (None), which could not be put back."""
    return signal.getsignal(number) not in (signal.SIG_IGN, None)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    # A second one would cut short what the first one ends.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(TERMINATED)

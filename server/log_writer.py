"""Writes log lines from a thread of its own, so that a stream whose reader has stopped holds up nobody.

What does not fit into its queue is dropped and counted. It does not know what lines mean.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

Write = Callable[[str], object]

# About 3 MB of lines: half a minute of a busy server.
_MOST_LINES = 10_000
# How long the last lines get to be written when the process ends.
_LAST_SECONDS = 0.5


class LogWriter(logging.Handler):
    """Hands formatted lines to `write`, one after the other, in a thread.

    Attributes:
        dropped: lines that were not written because `most_lines` were waiting.
    """

    def __init__(self, write: Write, *, most_lines: int = _MOST_LINES) -> None:
        super().__init__()
        self.dropped = 0
        self._told = 0
        self._write = write
        self._lines: queue.Queue[str] = queue.Queue(most_lines)
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record, or count it where there is no room."""
        try:
            line = self.format(record)
            self._lines.put_nowait(f"{line}\n")
        except queue.Full:
            self.dropped += 1
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Wait until all lines are written, for a short while at most."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, _LAST_SECONDS)

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            # The reader is gone or the disk is full: the server goes on without a log.
            with suppress(OSError, ValueError):
                self._write(line)
            if self._lines.empty():
                self._tell_dropped()
            self._lines.task_done()

    def _tell_dropped(self) -> None:
        missing = self.dropped - self._told
        if missing:
            self._told += missing
            fields = {"fields": {"lines": missing}}
            record = logging.LogRecord("regard.server", logging.WARNING, "", 0, "log lines dropped", None, None)
            record.__dict__.update(fields)
            with suppress(OSError, ValueError):
                self._write(f"{self.format(record)}\n")


def write_to_descriptor(descriptor: int) -> Write:
    """Return a function that writes text to a file descriptor.

    No stream of Python's is in between: the interpreter could not end while a thread holds the lock of one.
    """

    def write(text: str) -> None:
        rest = text.encode()
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    return write

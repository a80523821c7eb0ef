"""Keeps one record of every request sent, from the moment it is sent: the only source of every figure.

It does not know how requests are made, and reads no clock: all times are nanoseconds after the start of the load.
"""

import csv
import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.loadtest.load.answers import NOTHING, Answer

OK = "OK"
# What a record says instead of a gRPC status.
CENSORED = "CENSORED"  # still unanswered when the run ended: it took at least this long
UNREADABLE = "UNREADABLE"  # an answer came and was no reply to what was asked
FAILED_TEXTS = "FAILED_TEXTS"  # the call was OK, some of its texts or pictures were not
INCOMPLETE = "INCOMPLETE"  # all was OK, and yet text, words or attention are missing or not what they must be


class Record(NamedTuple):
    """One request: `due_ns` is when it should have been sent, `sent_ns` when it was, `end_ns` when it was answered."""

    worker: int
    number: int
    traffic: str
    payload: int
    due_ns: int
    sent_ns: int
    end_ns: int
    code: str
    digest: str
    target_tokens: int
    queue_seconds: float
    encode_seconds: float
    decode_seconds: float
    steps: int
    batch_rows: float
    reply_bytes: int


class _Sent(NamedTuple):
    traffic: str
    payload: int
    due_ns: int
    sent_ns: int


class Recorder:
    """The records of one worker.

    Besides, it integrates the number of calls in flight over the measured window as things happen, which gives Little's
    law something to be checked against.

    Args:
        worker: number of the worker, from 0.
        window_ns: start and end of the measured window.
    """

    def __init__(self, *, worker: int, window_ns: tuple[int, int]) -> None:
        self._worker = worker
        self._window = window_ns
        self._open: dict[int, _Sent] = {}
        self._closed: list[Record] = []
        self._sent = 0
        self._failed = 0
        self._area = 0
        self._changed_at = 0

    @property
    def sent(self) -> int:
        """Requests sent so far."""
        return self._sent

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered."""
        return len(self._open)

    @property
    def failed(self) -> int:
        """Requests that ended in anything but OK."""
        return self._failed

    @property
    def in_flight_nanoseconds(self) -> int:
        """Calls in flight, integrated over the window up to the last change."""
        return self._area

    def begin(self, *, traffic: str, payload: int, due_ns: int, sent_ns: int) -> int:
        """Note a request that is about to be sent; returns the number to end it by."""
        self._integrate(sent_ns)
        number = self._sent
        self._sent += 1
        self._open[number] = _Sent(traffic, payload, due_ns, sent_ns)
        return number

    def end(self, number: int, *, end_ns: int, code: str, answer: Answer = NOTHING) -> bool:
        """Note how a request ended. The first end counts; False for any later one."""
        if number not in self._open:
            return False
        self._integrate(end_ns)
        call = self._open.pop(number)
        self._failed += code != OK
        self._closed.append(
            Record(
                worker=self._worker,
                number=number,
                traffic=call.traffic,
                payload=call.payload,
                due_ns=call.due_ns,
                sent_ns=call.sent_ns,
                end_ns=end_ns,
                code=code,
                digest=answer.digest,
                target_tokens=answer.target_tokens,
                queue_seconds=answer.queue_seconds,
                encode_seconds=answer.encode_seconds,
                decode_seconds=answer.decode_seconds,
                steps=answer.steps,
                batch_rows=answer.batch_rows,
                reply_bytes=answer.size,
            )
        )
        return True

    def censor(self, *, at_ns: int) -> int:
        """End everything still in flight as unanswered at its present age; returns how many."""
        unanswered = list(self._open)
        for number in unanswered:
            self.end(number, end_ns=at_ns, code=CENSORED)
        return len(unanswered)

    def records(self) -> tuple[Record, ...]:
        """All ended requests, in the order in which they were sent."""
        return tuple(sorted(self._closed, key=lambda record: record.number))

    def _integrate(self, now: int) -> None:
        start, end = self._window
        since, until = max(self._changed_at, start), min(now, end)
        if until > since:
            self._area += len(self._open) * (until - since)
        self._changed_at = max(self._changed_at, now)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write gzipped CSV with a header line."""
    with gzip.open(path, "wt", encoding="utf-8", newline="", compresslevel=6) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Record._fields)
        writer.writerows(records)


def read_records(path: Path) -> tuple[Record, ...]:
    """Read what `write_records` wrote. Raises ValueError for another header."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, ())
        if tuple(header) != Record._fields:
            raise ValueError(
                f"{path.name} has columns {', '.join(header)}, this program reads {', '.join(Record._fields)}"
            )
        return tuple(_parse(row) for row in rows)


def _parse(row: Sequence[str]) -> Record:
    worker, number, traffic, payload, due, sent, end, code, digest, *measured = row
    tokens, queue, encode, decode, steps, rows, size = measured
    return Record(
        worker=int(worker),
        number=int(number),
        traffic=traffic,
        payload=int(payload),
        due_ns=int(due),
        sent_ns=int(sent),
        end_ns=int(end),
        code=code,
        digest=digest,
        target_tokens=int(tokens),
        queue_seconds=float(queue),
        encode_seconds=float(encode),
        decode_seconds=float(decode),
        steps=int(steps),
        batch_rows=float(rows),
        reply_bytes=int(size),
    )

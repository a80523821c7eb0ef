"""The recorder loses no request, keeps the first end of each, and counts what is in flight as it happens."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.loadtest.load.answers import Answer
from regard.loadtest.load.recorder import CENSORED, OK, Record, Recorder, read_records, write_records

WINDOW = (100, 900)


def begin(recorder: Recorder, at: int) -> int:
    return recorder.begin(traffic="a", payload=3, due_ns=at - 1, sent_ns=at)


@given(st.lists(st.tuples(st.integers(0, 1000), st.none() | st.integers(0, 500)), max_size=40))
def test_every_request_is_recorded_exactly_once(calls: list[tuple[int, int | None]]) -> None:
    recorder = Recorder(worker=0, window_ns=WINDOW)
    happenings: list[tuple[int, int, int | None]] = []
    for number, (start, length) in enumerate(sorted(calls, key=lambda call: call[0])):
        happenings.append((start, 0, None))
        if length is not None:
            happenings.append((start + length + 1, 1, number))
    for at, _, number in sorted(happenings, key=lambda happening: happening[:2]):
        if number is None:
            begin(recorder, at)
        else:
            assert recorder.end(number, end_ns=at, code=OK)
    unanswered = sum(length is None for _, length in calls)
    assert recorder.in_flight == unanswered
    assert recorder.censor(at_ns=5000) == unanswered
    records = recorder.records()
    assert [record.number for record in records] == list(range(len(calls)))
    assert sum(record.code == CENSORED for record in records) == unanswered == recorder.failed


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 500)), max_size=30))
def test_calls_in_flight_add_up_to_the_time_that_calls_took_within_the_window(calls: list[tuple[int, int]]) -> None:
    recorder = Recorder(worker=0, window_ns=WINDOW)
    ordered = sorted(calls)
    happenings = [(start, number, True) for number, (start, _) in enumerate(ordered)]
    happenings += [(start + length, number, False) for number, (start, length) in enumerate(ordered)]
    for at, number, begins in sorted(happenings, key=lambda happening: (happening[0], happening[2])):
        if begins:
            begin(recorder, at)
        else:
            recorder.end(number, end_ns=at, code=OK)
    expected = sum(max(min(start + length, 900) - max(start, 100), 0) for start, length in calls)
    assert recorder.in_flight_nanoseconds == expected


def test_the_first_end_of_a_request_counts() -> None:
    recorder = Recorder(worker=0, window_ns=WINDOW)
    number = begin(recorder, 10)
    recorder.censor(at_ns=50)
    assert not recorder.end(number, end_ns=60, code=OK)
    [record] = recorder.records()
    assert (record.code, record.end_ns) == (CENSORED, 50)


def test_records_survive_their_file(tmp_path: Path) -> None:
    recorder = Recorder(worker=2, window_ns=WINDOW)
    answer = Answer("abc", 0, 7, 0.1, 1e-9, 0.3, 4, 2.5, 900)
    recorder.end(begin(recorder, 10), end_ns=2**53 + 1, code=OK, answer=answer)
    begin(recorder, 20)
    recorder.censor(at_ns=30)
    write_records(tmp_path / "r.csv.gz", recorder.records())
    assert read_records(tmp_path / "r.csv.gz") == recorder.records()


def test_a_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    write_records(tmp_path / "r.csv.gz", [])
    content = (tmp_path / "r.csv.gz").read_bytes()
    changed = gzip.decompress(content).replace(b"due_ns", b"scheduled")
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(changed))
    with pytest.raises(ValueError, match="scheduled"):
        read_records(tmp_path / "r.csv.gz")


def test_the_columns_of_the_file_are_those_of_a_record() -> None:
    assert Record._fields[:8] == ("worker", "number", "traffic", "payload", "due_ns", "sent_ns", "end_ns", "code")

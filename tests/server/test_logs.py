"""What a log line may hold."""

from __future__ import annotations

import errno
import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from regard.server import logs
from regard.server.log_writer import LogWriter
from regard.server.settings import ServerSettings

CONTROLS = "a\x1b[31m\x00\x07\r\n\x7f\x9b\u202eb"


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(settings: ServerSettings, *, error: BaseException | None = None, **fields: logs.Value) -> str:
    stream = io.StringIO()
    writer = logs.configure(settings, stream.write)
    logs.write(logging.getLogger("regard.test"), logging.INFO, "call", fields, error)
    writer.flush()
    return stream.getvalue()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_control_bytes_are_escaped_and_the_line_stays_one(log_format: str) -> None:
    written = lines(ServerSettings(log_format=log_format), name=CONTROLS)
    assert written.endswith("\n")
    assert all(" " <= character <= "~" for character in written[:-1])


def test_json_gives_the_values_back() -> None:
    line = json.loads(lines(ServerSettings(log_format="json"), name=CONTROLS, seconds=0.25, done=True))
    assert line["name"] == CONTROLS
    assert line["seconds"] == 0.25
    assert line["done"] is True
    assert line["message"] == "call"


def test_text_quotes_what_is_not_one_plain_word() -> None:
    written = lines(ServerSettings(), plain="OK", spaced="a b", empty="", forged="x code=OK")
    assert ' plain=OK spaced="a b" empty="" forged="x code=OK"' in written


def test_messages_of_exceptions_are_withheld_but_frames_are_kept() -> None:
    def fail(sent: str) -> None:
        try:
            raise KeyError(sent)
        except KeyError as cause:
            raise ValueError(f"cannot use {sent}") from cause

    text = "secret"
    with pytest.raises(ValueError, match="secret") as caught:
        fail(text)
    written = lines(ServerSettings(), error=caught.value)
    assert "secret" not in written
    assert "ValueError" in written
    assert "KeyError" in written
    assert "in fail" in written


def test_messages_of_exceptions_are_shown_on_request() -> None:
    written = lines(ServerSettings(log_texts=True), error=ValueError("open text"))
    assert "ValueError: open text" in written


def test_the_level_is_obeyed() -> None:
    assert lines(ServerSettings(log_level="warning"), name="x") == ""


def test_a_reader_who_has_stopped_holds_up_nobody_and_is_told_what_he_missed() -> None:
    reads = threading.Event()
    read: list[str] = []

    def write(line: str) -> None:
        assert reads.wait(10)
        read.append(line)

    writer = LogWriter(write, most_lines=3)
    writer.setFormatter(logs.LineFormatter(as_json=True, messages=False))
    for number in range(10):
        writer.emit(logging.LogRecord("regard.test", logging.INFO, "", 0, f"line {number}", None, None))
    reads.set()
    writer.flush()
    messages = [json.loads(line) for line in read]
    # One line was in the hands of the thread, or not yet.
    assert writer.dropped in (6, 7)
    assert [line["message"] for line in messages[:-1]] == [f"line {number}" for number in range(10 - writer.dropped)]
    assert (messages[-1]["message"], messages[-1]["lines"]) == ("log lines dropped", writer.dropped)


def test_a_full_disk_ends_no_thread() -> None:
    tries: list[str] = []

    def write(line: str) -> None:
        tries.append(line)
        raise OSError(errno.ENOSPC, "no space left")

    writer = LogWriter(write)
    for _ in range(2):
        writer.emit(logging.LogRecord("regard.test", logging.INFO, "", 0, "line", None, None))
        writer.flush()
    assert len(tries) == 2


class ExecuteBatchError(Exception):
    """As gRPC calls it."""


@pytest.mark.parametrize(("error", "logged"), [(ExecuteBatchError(), 0), (ValueError(), 1)])
def test_a_caller_who_leaves_while_an_error_is_sent_is_no_error_of_ours(error: Exception, logged: int) -> None:
    written: list[str] = []
    writer = logs.configure(ServerSettings(), written.append)
    logging.getLogger("grpc._cython.cygrpc").error("raised in core", exc_info=error)
    writer.flush()
    assert len(written) == logged

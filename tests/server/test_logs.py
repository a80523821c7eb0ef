"""What a log line may hold."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from regard.server import logs
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
    logs.configure(settings, stream)
    logs.write(logging.getLogger("regard.test"), logging.INFO, "call", fields, error)
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

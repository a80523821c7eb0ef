"""Formats log records as lines of logfmt or JSON, free of control bytes and, unless allowed, of callers' texts."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Mapping
from types import TracebackType

from regard.server.log_writer import LogWriter, Write, write_to_descriptor
from regard.server.settings import ServerSettings

_FIELDS = "fields"
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@+-")

Value = str | int | float | bool


def configure(settings: ServerSettings, write: Write | None = None) -> LogWriter:
    """Send all log records of this process to one place, in the format and from the level that the settings name.

    Args:
        settings: of the server.
        write: takes the lines; standard error if it is None.

    Returns:
        what writes them, which knows how many lines were dropped.
    """
    handler = LogWriter(write or write_to_descriptor(sys.stderr.fileno()))
    handler.setFormatter(LineFormatter(as_json=settings.log_format == "json", messages=settings.log_texts))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_no_leaving_caller)
    # asyncio quotes tasks and futures, which may hold what a caller sent.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    return handler


def write(
    logger: logging.Logger,
    level: int,
    message: str,
    fields: Mapping[str, Value],
    error: BaseException | None = None,
) -> None:
    """Log a constant message with fields, and with the traceback of `error`."""
    logger.log(level, message, extra={_FIELDS: dict(fields)}, exc_info=error)


def _is_no_leaving_caller(record: logging.LogRecord) -> bool:
    """Drop what gRPC logs as an error, with a trace, where a caller leaves while his own error is sent to him."""
    return not (record.exc_info and record.exc_info[0] and record.exc_info[0].__name__ == "ExecuteBatchError")


class LineFormatter(logging.Formatter):
    """Formats a record as one line of printable ASCII.

    Args:
        as_json: write a JSON object instead of logfmt.
        messages: whether to write the messages of exceptions, which may quote what a caller sent.
    """

    def __init__(self, *, as_json: bool, messages: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._messages = messages

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Value] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, _FIELDS, {}))
        if record.exc_info and record.exc_info[1] is not None:
            line["trace"] = self._trace(record.exc_info[1])
        if self._as_json:
            return _quote(line)
        return " ".join(f"{key}={_plain(value)}" for key, value in line.items())

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name is logging's
        raise NotImplementedError("traces are a field of the line")

    def _trace(self, error: BaseException) -> str:
        if self._messages:
            return "".join(traceback.format_exception(error))
        parts: list[str] = []
        seen: set[int] = set()
        link: BaseException | None = error
        while link is not None and id(link) not in seen:
            seen.add(id(link))
            parts.append(
                f"{type(link).__name__} (message withheld, --log-texts shows it)\n{_frames(link.__traceback__)}"
            )
            link = link.__cause__ or link.__context__
        return "caused by ".join(parts)


def _frames(trace: TracebackType | None) -> str:
    return "".join(traceback.format_tb(trace))


def _plain(value: Value) -> str:
    """Write a logfmt value: bare if it is one plain word, else quoted and escaped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if text and _BARE.issuperset(text) else _quote(text)


def _quote(value: object) -> str:
    """Write ASCII JSON, with DEL escaped too, the one control character that JSON leaves alone."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")

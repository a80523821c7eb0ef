"""Reads server settings: flags win over REGARD_* variables, these over a TOML file, and that over the defaults.

An error names the flag, variable or line of the file that the wrong value came from.
"""

from __future__ import annotations

import argparse
import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import cast

from regard.server.errors import SettingsError
from regard.server.settings import DEVICES, LOG_FORMATS, LOG_LEVELS, OFF, Limits, ServerSettings

PREFIX = "REGARD_"
CONFIG = "config"

# Kubernetes sets these for a Service named "regard" or "regard-..."; they are no settings of ours.
_SERVICE_LINK = re.compile(r"REGARD_(.*_)?(SERVICE_(HOST|PORT(_.*)?)|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_.*)?)")
# Other commands of the project read these, from the same environment.
_OF_OTHER_COMMANDS = frozenset({"REGARD_DATA"})
_LISTED = ("models",)
_DESCRIPTION = """\
Serve every model bundle under --models over gRPC, with the attention of each answer kept.
Without flags the embedded models are served to this machine only."""
_EPILOG = """\
Every setting may also come from the environment (--queue-limit is REGARD_QUEUE_LIMIT; several --models are separated
by ':') or from a TOML file given by --config (queue-limit = 2048; models = ["a", "b"]). Flags win over the environment,
the environment over the file.

examples:
  serve the embedded models here             %(prog)s
  serve your own to the network              %(prog)s --models /srv/models --address 0.0.0.0:50051
  let a script find the port                 %(prog)s --address 127.0.0.1:0 --port-file port.txt --metrics-address off
  refuse to start without a GPU              %(prog)s --device cuda
  call it                                    regard translate "We are eating bread."

SIGTERM or Ctrl-C stops gently: health turns NOT_SERVING, running calls finish within --grace, the rest is refused with
UNAVAILABLE. A second signal cuts that short."""


def _switch(value: str) -> bool:
    answers = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    return answers[value.lower()]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """One setting: its name and help text, and how its value is parsed."""

    name: str
    parse: Callable[[str], object]
    expected: str
    shown: str
    help: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


def _text(name: str, shown: str, text: str) -> _Option:
    return _Option(name=name, parse=str, expected="text", shown=shown, help=text)


def _path(name: str, shown: str, text: str) -> _Option:
    return _Option(name=name, parse=Path, expected="a path", shown=shown, help=text)


def _count(name: str, text: str) -> _Option:
    return _Option(name=name, parse=int, expected="a whole number", shown="N", help=text)


def _seconds(name: str, text: str) -> _Option:
    return _Option(name=name, parse=float, expected="a number of seconds", shown="SECONDS", help=text)


def _yes_no(name: str, text: str) -> _Option:
    return _Option(name=name, parse=_switch, expected="true or false", shown="", help=text)


_GROUPS: Mapping[str, tuple[_Option, ...]] = {
    "models": (
        _path(
            "models", "DIR", "directory of NAME/VERSION/ bundles; may be given several times (default: embedded models)"
        ),
        _text(
            "default_model",
            "NAME",
            "answers requests for its task that name no model (default: en-xx where it is embedded, else the first)",
        ),
        _text(
            "profile", "NAME", "graphs to run: portable, cpu, cuda (default: cuda on a GPU, else what each bundle says)"
        ),
        _text("device", "|".join(DEVICES), "where to run; cuda that is not there is an error, never a silent fallback"),
    ),
    "network": (
        _text("address", "HOST:PORT", "where to listen; port 0 takes a free one (default: 127.0.0.1:50051)"),
        _path("port_file", "FILE", "write the port here once ready; removed on exit"),
        _text("metrics_address", f"HOST:PORT|{OFF}", "Prometheus page (default: 127.0.0.1:9464)"),
        _yes_no("reflection", "let clients list services (default: on)"),
        _seconds(
            "max_connection_age", "close connections gently at this age, so that callers rebalance (default: 0, never)"
        ),
    ),
    "bounds": (
        _count("workers", "decode threads (default: the processors that this process may use)"),
        _count("rows", "rows of a decode step, for each worker (default: 64)"),
        _count(
            "queue_limit",
            "sentences that may wait; at least --max-segments-per-call; beyond it RESOURCE_EXHAUSTED (default: 1024)",
        ),
        _count("max_concurrent_calls", "concurrent calls; beyond it RESOURCE_EXHAUSTED (default: 1024)"),
        _count(
            "max_bytes_held",
            "bytes of requests and answers in memory; beyond it RESOURCE_EXHAUSTED (default: 268435456)",
        ),
        _count("max_decoding_bytes", "memory of pictures being decoded; others wait (default: 268435456)"),
        _seconds("default_deadline", "for calls that come without a deadline (default: 60)"),
        _count("max_texts", "texts in a request (default: 128)"),
        _count("max_text_bytes", "UTF-8 bytes of a text (default: 65536)"),
        _count("max_segments_per_call", "sentences in a request (default: 512)"),
        _count("max_beam_size", "largest beam (default: 16)"),
        _count("max_images", "pictures in a request (default: 64)"),
        _count("max_image_bytes", "bytes of a picture file (default: 16777216)"),
        _count("max_image_pixels", "pixels of a picture (default: 50000000)"),
        _count("max_message_bytes", "largest request or reply (default: 33554432)"),
    ),
    "stopping": (
        _seconds("grace", "running calls get this long when told to stop (default: 10)"),
        _seconds("drain_pause", "keep serving this long after health turned NOT_SERVING (default: 0)"),
    ),
    "logs": (
        _text("log_level", "|".join(LOG_LEVELS), "(default: info)"),
        _text("log_format", "|".join(LOG_FORMATS), "(default: text)"),
        _yes_no("log_texts", "allow callers' texts in logs (default: off)"),
    ),
}
_OPTIONS: Mapping[str, _Option] = {option.name: option for group in _GROUPS.values() for option in group}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every setting, with a help text that teaches, to a parser."""
    parser.description = parser.description or _DESCRIPTION
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="TOML file with settings")
    for title, options in _GROUPS.items():
        group = parser.add_argument_group(title)
        for option in options:
            if option.parse is _switch:
                group.add_argument(
                    option.flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=option.help
                )
            elif option.name in _LISTED:
                group.add_argument(
                    option.flag, metavar=option.shown, action="append", default=argparse.SUPPRESS, help=option.help
                )
            else:
                group.add_argument(option.flag, metavar=option.shown, default=argparse.SUPPRESS, help=option.help)


def read_settings(arguments: argparse.Namespace, environment: Mapping[str, str]) -> ServerSettings:
    """Merge flags, environment and file.

    Args:
        arguments: parsed by a parser that went through `add_arguments`.
        environment: variables; those that do not start with REGARD_ are ignored.

    Raises:
        SettingsError: a value is wrong or a name is unknown; one line that names its source and what was expected.
    """
    flags = {name: value for name, value in vars(arguments).items() if name in _OPTIONS}
    variables = _read_environment(environment)
    config = cast("str | None", getattr(arguments, CONFIG, None)) or variables.pop(CONFIG, None)
    layers: list[tuple[Callable[[_Option], str], Mapping[str, object]]] = [
        (lambda option: option.flag, flags),
        (lambda option: option.variable, variables),
    ]
    if config is not None:
        file = Path(str(config))
        layers.append((lambda option: f"{file}: {option.name.replace('_', '-')}", _read_file(file)))

    values: dict[str, object] = {}
    for label, layer in reversed(layers):
        for name, raw in layer.items():
            values[name] = _read_value(_OPTIONS[name], raw, label(_OPTIONS[name]))
    limit_names = {entry.name for entry in fields(Limits)}
    limits = {name: values.pop(name) for name in limit_names & values.keys()}
    try:
        # The parsers above give each value the type of its field.
        return ServerSettings(**values, limits=Limits(**limits))  # pyright: ignore[reportArgumentType]
    except SettingsError as error:
        name, _, rest = str(error).partition(":")
        used = [label(_OPTIONS[name]) for label, layer in layers if name in layer]
        raise SettingsError(f"{used[0] if used else _OPTIONS[name].flag}:{rest}") from error


def _read_environment(environment: Mapping[str, str]) -> dict[str, object]:
    known = {option.variable: option for option in _OPTIONS.values()}
    found: dict[str, object] = {}
    for variable, value in environment.items():
        if variable in known:
            name = known[variable].name
            found[name] = value.split(":") if name in _LISTED else value
        elif variable == PREFIX + CONFIG.upper():
            found[CONFIG] = value
        elif variable in _OF_OTHER_COMMANDS or _SERVICE_LINK.fullmatch(variable):
            continue
        elif variable.startswith(PREFIX):
            raise SettingsError(f"{variable}: no such setting{_nearest(variable, known)}")
    return found


def _read_file(path: Path) -> dict[str, object]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"--config: cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config: {path} is not TOML: {error}") from error
    known = {name.replace("_", "-"): name for name in _OPTIONS}
    for key in content:
        if key not in known:
            raise SettingsError(f"{path}: {key}: no such setting{_nearest(key, known)}")
    return {known[key]: value for key, value in content.items()}


def _read_value(option: _Option, raw: object, label: str) -> object:
    """Parse a value: text from a flag or a variable, or what a TOML file has already typed."""
    if option.name in _LISTED:
        items = cast("list[object]", raw) if isinstance(raw, list) else [raw]
        if not all(isinstance(item, str) and item for item in items):
            raise SettingsError(f"{label}: expected paths, got {raw!r}")
        return tuple(Path(str(item)) for item in items)
    if isinstance(raw, bool):
        if option.parse is not _switch:
            raise SettingsError(f"{label}: expected {option.expected}, got {str(raw).lower()}")
        return raw
    if not isinstance(raw, str | int | float) or (isinstance(raw, str) and not raw):
        raise SettingsError(f"{label}: expected {option.expected}, got {raw!r}")
    try:
        return option.parse(str(raw))
    except (ValueError, KeyError) as error:
        raise SettingsError(f"{label}: expected {option.expected}, got {raw!r}") from error


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""

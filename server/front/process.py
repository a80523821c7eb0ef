"""Runs the server process: signals, the line that announces readiness, the drain, the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

from regard.atomic import write_text
from regard.server import logs
from regard.server.errors import SettingsError, StartupError
from regard.server.front.application import Application
from regard.server.log_writer import LogWriter
from regard.server.settings import ServerSettings

# By default a thread that computes keeps the interpreter for 5 ms before others get it, which starves the event loop
# behind busy decode threads. A tenth of that took the null bundle from 99 to 148 answers a second with 48 calls in
# flight, and cost a real model nothing.
_SWITCH_SECONDS = 0.0005

# Native code that hangs cannot be interrupted; this long after the grace period the process exits regardless.
_LAST_SECONDS = 0.7

_log = logging.getLogger("regard.server")


def serve(settings: ServerSettings) -> int:
    """Serve until told to stop.

    Returns:
        the exit code: 0 after a requested stop, 1 if the server could not start.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    _raise_descriptor_limit()
    writer = logs.configure(settings)
    # Pillow's warnings about odd pictures would bypass the log; the caller is told what matters.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        asyncio.run(_serve(settings, writer))
    except StartupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


class _Stop:
    """What the operator asks for by signals: the first asks to stop, the second to stop now."""

    def __init__(self, settings: ServerSettings) -> None:
        self.asked = asyncio.Event()
        self.now = asyncio.Event()
        self._patience = settings.drain_pause + settings.grace
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # Whoever starts a process with SIGINT ignored, as shells do with `&` in a script, wants Ctrl-C to spare it;
            # so does `nohup` with SIGHUP.
            if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._hear, number)

    def _hear(self, number: signal.Signals) -> None:
        logs.write(_log, logging.INFO, "stopping", {"signal": number.name, "again": self.asked.is_set()})
        if self.asked.is_set():
            self.now.set()
            _leave_after(_LAST_SECONDS)
        else:
            self.asked.set()
            _leave_after(self._patience + _LAST_SECONDS)


async def _serve(settings: ServerSettings, writer: LogWriter) -> None:
    stop = _Stop(settings)
    application = Application(settings)
    application.metrics.log_lines_dropped(lambda: writer.dropped)
    try:
        _remove(settings.port_file)
        await application.listen()
        loading = asyncio.create_task(application.load())
        asked = asyncio.create_task(stop.asked.wait())
        await asyncio.wait({loading, asked}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            _announce(application)
            await asked
            await application.drain(stop.now)
        else:
            loading.cancel()
            await asyncio.wait({loading}, timeout=_LAST_SECONDS / 2)
    finally:
        _remove(settings.port_file)
        await application.close()
    logs.write(_log, logging.INFO, "stopped", {})


def _raise_descriptor_limit() -> None:
    """Take as many file descriptors, and so connections, as the machine allows this process: often only 1,024 are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # Some systems have a hard limit that cannot be reached.
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(application: Application) -> None:
    """Write the port file, and announce on standard output what is served where."""
    assert application.loaded is not None
    port_file, loaded = application.settings.port_file, application.loaded
    names = ", ".join(f"{bundle.key.name}/{bundle.key.version}" for bundle in loaded.registry.bundles)
    device = "cuda" if "CUDAExecutionProvider" in loaded.providers else "cpu"
    workers = f"{loaded.workers} worker{'s' if loaded.workers != 1 else ''}"
    if port_file is not None:
        _write(port_file, f"{application.port}\n")
    sys.stdout.write(f"serving {names} on {application.address} ({device}, {workers})\n")
    sys.stdout.flush()
    logs.write(
        _log,
        logging.INFO,
        "ready",
        {
            "address": application.address,
            "models": names,
            "device": device,
            "workers": loaded.workers,
            "metrics_port": application.metrics_port,
        },
    )
    for bundle in loaded.registry.bundles:
        facts: dict[str, logs.Value] = {
            "model": f"{bundle.key.name}/{bundle.key.version}",
            "task": bundle.task.value,
            "profile": bundle.profile,
            # Some weights are licensed for research only, which whoever serves them must know.
            "licence": bundle.manifest.provenance.licence,
        }
        logs.write(_log, logging.INFO, "model", facts)


def _write(path: Path, content: str) -> None:
    """Write atomically, so that nobody who waits for the file reads half of it."""
    try:
        write_text(path, content)
    except OSError as error:
        raise SettingsError(f"--port-file: cannot write {path}: {error.strerror}") from error


def _remove(path: Path | None) -> None:
    try:
        if path is not None:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"--port-file: cannot remove {path}: {error.strerror}") from error


def _leave_after(seconds: float) -> None:
    """Exit after so many seconds whatever happens; normally the process has ended before."""

    def leave() -> None:
        # Nothing is flushed: a pipe that nobody reads would keep the process.
        os._exit(0)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()

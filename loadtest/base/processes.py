"""Starts a server of one's own on a free port, waits until it answers, and ends it.

It does not know what the server serves.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import grpc

from regard.loadtest.base.termination import held_back

READY_SECONDS = 60.0
GRACE_SECONDS = 10.0


class Served(NamedTuple):
    """A running server."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path


class StartError(Exception):
    """A server did not come up; says what it wrote last."""


@contextmanager
def served(command: Sequence[str]) -> Generator[Served]:
    """Run `python COMMAND --port-file FILE` until the block ends; the file must come to hold the port.

    Raises StartError.
    """
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        port_file, log = Path(folder, "port"), Path(folder, "server.log")
        with log.open("wb") as output:
            running = child([*command, "--port-file", str(port_file)], stdout=output, stderr=subprocess.STDOUT)
            with running as process:
                yield Served(_wait_until_ready(process, port_file, log), process, log)


@contextmanager
def child(
    command: Sequence[str], *, stdout: IO[bytes] | int, stderr: IO[bytes] | int, cwd: Path | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """Run `python COMMAND`, which finds our modules and reads nothing; the block's end ends it and what it started."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with held_back():
            process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=child_environment(),
                start_new_session=True,
            )
        yield process
    finally:
        if process is not None:
            end_group(process)


def translator(models: Sequence[Path] = (), *, profile: str = "", default_model: str = "") -> list[str]:
    """The command of our server: the models that come with it, unless some are named."""
    command = ["-m", "regard.server", "--address", "127.0.0.1:0", "--metrics-address", "off"]
    for folder in models:
        command += ["--models", str(folder)]
    if profile:
        command += ["--profile", profile]
    if default_model:
        command += ["--default-model", default_model]
    return command


def toy() -> list[str]:
    """The command of the server with known delays."""
    return ["-m", "regard.loadtest.toy.server"]


def child_environment() -> Mapping[str, str]:
    """The environment in which a child finds the modules that this process finds.

    Without REGARD_*: they are settings of the operator's own server or of this command, not of a server started here.
    """
    folders = [str(Path(entry or ".").resolve()) for entry in sys.path]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    return {**inherited, "PYTHONPATH": os.pathsep.join(folders), "PYTHONUNBUFFERED": "1"}


def end_group(process: subprocess.Popen[bytes], grace: float = GRACE_SECONDS) -> None:
    """End a process that leads a group, and what it started, kindly at first; whoever ends us meanwhile has to wait."""
    with held_back():
        for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                continue
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port_file: Path, log: Path) -> str:
    give_up = time.monotonic() + READY_SECONDS
    while time.monotonic() < give_up:
        if process.poll() is not None:
            raise StartError(f"the server ended at once with code {process.returncode}:\n{_tail(log)}")
        text = port_file.read_text(encoding="utf-8").strip() if port_file.exists() else ""
        if text:
            address = text if ":" in text else f"127.0.0.1:{text}"
            with grpc.insecure_channel(address) as channel:
                try:
                    grpc.channel_ready_future(channel).result(timeout=max(give_up - time.monotonic(), 0.1))
                except grpc.FutureTimeoutError:
                    break
            return address
        time.sleep(0.02)
    raise StartError(f"the server did not answer within {READY_SECONDS:.0f} s:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]

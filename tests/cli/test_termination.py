"""SIGTERM ends a measuring command with all that it started."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cli.termination import ended_by_sigterm
from loadtest.processes import child_environment


def running(parent: int) -> list[psutil.Process]:
    """Return what a process has started, directly or not, with the words of each command."""
    family = {parent}
    found: list[psutil.Process] = []
    for each in psutil.process_iter(["ppid", "cmdline"]):  # parents come before their children
        if each.info["ppid"] in family and each.info["cmdline"]:
            family.add(each.pid)
            found.append(each)
    return found


def test_a_measurement_that_is_terminated_leaves_no_process(tmp_path: Path) -> None:
    command = ["-m", "cli.main", "bench", "run", "--duration", "600", "--output", str(tmp_path / "run")]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen([sys.executable, *command], stdout=said, stderr=said, env=child_environment())
        try:
            while {"server", "locust"} - {word for child in running(process.pid) for word in child.info["cmdline"]}:
                assert process.poll() is None, (tmp_path / "said").read_text()
                time.sleep(0.1)
            started = running(process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 143
        finally:
            process.kill()
            process.wait()
    _, left = psutil.wait_procs(started, timeout=30)
    assert not left
    assert "Traceback" not in (tmp_path / "said").read_text()


def test_what_sigterm_did_before_it_does_again_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="143"), ended_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_threads_leave_signals_alone() -> None:
    found: list[object] = []

    def look() -> None:
        with ended_by_sigterm():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]

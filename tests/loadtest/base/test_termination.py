"""SIGTERM ends a measuring command with all that it started."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

from regard.loadtest.base import line_process
from regard.loadtest.base.line_process import LineProcess
from regard.loadtest.base.processes import child, child_environment, end_group
from regard.loadtest.base.termination import ended_by_sigterm, held_back


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Generator[None]:
    """Ctrl-C raises KeyboardInterrupt here, even where the tests were started to ignore it (`nohup make test &`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def running(parent: int) -> list[psutil.Process]:
    """Return what a process has started, directly or not, with the words of each command."""
    family = {parent}
    found: list[psutil.Process] = []
    for each in psutil.process_iter(["ppid", "cmdline"]):  # parents come before their children
        if each.info["ppid"] in family and each.info["cmdline"]:
            family.add(each.pid)
            found.append(each)
    return found


@pytest.mark.parametrize("module", ["regard.cli.main bench", "regard.loadtest"])
def test_a_measurement_that_is_terminated_leaves_no_process(tmp_path: Path, module: str) -> None:
    command = ["-m", *module.split(), "run", "--duration", "600", "--output", str(tmp_path / "run")]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen([sys.executable, *command], stdout=said, stderr=said, env=child_environment())
        try:
            while {"regard.server", "locust"} - {
                word for child in running(process.pid) for word in child.info["cmdline"]
            }:
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


def test_an_ignored_ctrl_c_stays_ignored_while_it_is_held_back_and_afterwards() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_back():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_handlers_from_outside_python_are_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python cannot put them back: it reports each as None."""
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patched:

        def unknown(_: int) -> None:
            return None

        patched.setattr(signal, "getsignal", unknown)
        with ended_by_sigterm(), held_back():
            pass
    assert signal.getsignal(signal.SIGTERM) is before


PROGRAM = """
import subprocess, sys, time
from regard.loadtest.base.processes import child
from regard.loadtest.base.termination import ended_by_sigterm
with ended_by_sigterm(), child(["-c", "import time; time.sleep(600)"], stdout=-3, stderr=-3) as started:
    print(started.pid, flush=True)
    time.sleep(600)
"""


def test_a_measurement_started_to_ignore_ctrl_c_is_spared_by_it_and_ends_with_its_children_at_sigterm() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        env=child_environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        assert process.stdout is not None
        with process.stdout:
            started = psutil.Process(int(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
        assert not started.is_running()
    finally:
        process.kill()
        process.wait()


def test_other_threads_leave_signals_alone() -> None:
    found: list[object] = []

    def look() -> None:
        with ended_by_sigterm():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


@pytest.mark.parametrize(("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_what_is_held_back_comes_at_the_end_of_the_block(number: int, error: type[BaseException]) -> None:
    done: list[str] = []

    def work() -> None:
        with held_back():
            signal.raise_signal(number)
            done.append("in the block")
        done.append("after it")

    with ended_by_sigterm(), pytest.raises(error):
        work()
    assert done == ["in the block"]


def test_a_child_that_was_just_started_ends_with_a_block_that_is_never_entered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Signalled)
    sleep = child(["-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with pytest.raises(SystemExit, match="143"), ended_by_sigterm(), sleep:
        pytest.fail("the block was entered")
    assert started[0].returncode is not None


def test_a_second_signal_does_not_spare_a_child_that_ignores_the_first() -> None:
    ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", ignoring], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    impatient = threading.Timer(0.3, signal.raise_signal, [signal.SIGTERM])
    impatient.start()
    with pytest.raises(SystemExit, match="143"), ended_by_sigterm():
        end_group(process, grace=1.0)
    impatient.join()
    assert process.returncode == -signal.SIGKILL


def test_a_second_sigterm_changes_nothing() -> None:
    done: list[str] = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            done.append("ended what was started")

    with pytest.raises(SystemExit, match="143"), ended_by_sigterm():
        work()
    assert done


def test_a_process_that_goes_on_without_commands_is_ended_however_impatient_somebody_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_process, "_GRACE_SECONDS", 0.5)
    stubborn = "import json, os, time; input(); print(json.dumps({'pid': os.getpid()}), flush=True); time.sleep(600)"
    process = LineProcess("stubborn", [sys.executable, "-c", stubborn])
    pid = process.ask("tell")["pid"]
    impatient = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    with ended_by_sigterm(), pytest.raises(KeyboardInterrupt), process:
        impatient.start()
    impatient.join()
    assert not psutil.pid_exists(pid)

"""`regard bench` teaches itself, imports only what is asked for, and its case list is held by tests that exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.cases import CASES, TESTED
from loadtest.commands import COMMANDS, main
from loadtest.processes import child_environment
from loadtest.progress import Progress
from loadtest.tested_cases import HELD_BY, TESTS, find_tests
from loadtest.text_table import text_table

TEXT = ("T01", "T03", "T04", "T05", "T08", "T10", "T11", "T13", "T14", "T15", "T16", "T17", "T19")
DECODING = ("D01", "D03", "D05", "D06", "D08", "D09", "D11", "D12", "D14", "D16")
EXPORT = ("X01", "X03", "X04", "X05", "X08", "X11", "X12")
TRANSPORT = ("G01", "G02", "G07", "L01")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(command.name in out and command.summary in out for command in COMMANDS)


def test_an_unknown_command_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rnu"]) == 2
    assert main([]) == 2
    err = capsys.readouterr().err
    assert "no command 'rnu'" in err
    assert "selftest" in err


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"usage: regard bench {command}" in capsys.readouterr().out


def test_asking_for_help_loads_neither_numpy_nor_grpc() -> None:
    script = "import sys; from loadtest.commands import main; main(['--help']); print(sorted(sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=child_environment()
    )
    assert "'numpy'" not in finished.stdout
    assert "'grpc'" not in finished.stdout


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "requests.csv.gz" in capsys.readouterr().err


def test_missing_case_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cases", "--cases", str(tmp_path)]) == 1
    assert "REGARD_CASES" in capsys.readouterr().err


def test_an_unknown_case_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cases", "--cases", str(tmp_path), "--only", "T99"]) == 2
    assert "no case T99" in capsys.readouterr().err


def test_every_case_is_tried_or_held_by_tests() -> None:
    assert sorted({*CASES, *TESTED}) == sorted((*TEXT, *DECODING, *EXPORT, *TRANSPORT))


def test_every_case_that_tests_hold_has_tests() -> None:
    found = find_tests(TESTS, TESTED)
    assert all(found.values()), {case: names for case, names in found.items() if not names}


def test_every_test_that_a_case_names_exists() -> None:
    found = find_tests(TESTS, TESTED)
    missing = [name for case, names in HELD_BY.items() for name in names if f"tests/{name}" not in found[case]]
    assert not missing


def test_a_table_breaks_long_cells_and_keeps_its_columns() -> None:
    lines = text_table(("a", "b"), [("x" * 5, "one two three"), ("y", "z")], widest=7).splitlines()
    assert lines == ["a      b", "─────  ───────", "xxxxx  one two", "       three", "y      z"]


class Terminal:
    """A stream that collects what is shown."""

    def __init__(self, *, interactive: bool) -> None:
        self.shown = ""
        self._interactive = interactive

    def isatty(self) -> bool:
        return self._interactive

    def write(self, text: str) -> int:
        self.shown += text
        return len(text)

    def flush(self) -> None:
        return


def test_progress_is_a_bar_on_a_terminal_and_few_lines_elsewhere() -> None:
    seconds = iter(range(1000))
    for interactive in (True, False):
        stream = Terminal(interactive=interactive)
        bar = Progress("load", 20, stream=stream, clock=lambda: float(next(seconds)))  # pyright: ignore[reportArgumentType] - as much of a stream as it needs
        for done in range(25):
            bar.show(done)
        bar.close()
        assert "100%" in stream.shown
        assert stream.shown.count("\r") == (25 if interactive else 0)
        assert stream.shown.count("\n") == (1 if interactive else 3)

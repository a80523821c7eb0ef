"""`regard bench` teaches itself, imports only what is asked for, and its case list is held by tests that exist."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.case_server import Outcome, Reply
from tests.acceptance.run_cases import CASES, TESTED
from tests.acceptance.tested_cases import HELD_BY, TESTS, find_tests

from regard.loadtest.base.processes import child_environment
from regard.loadtest.base.progress import Progress
from regard.loadtest.base.text_table import text_table
from regard.loadtest.commands import COMMANDS, main
from regard.v1.translation_pb2 import TranslateResponse

TEXT = ("T01", "T03", "T04", "T05", "T08", "T10", "T11", "T13", "T14", "T15", "T16", "T17", "T19")
IMAGES = ("I01", "I02", "I03", "I04", "I06", "I08", "I10", "I11", "I13", "I14", "I15", "I16")
DECODING = ("D01", "D02", "D03", "D05", "D06", "D08", "D09", "D11", "D12", "D14", "D16", "D17")
EXPORT = ("X01", "X03", "X04", "X05", "X07", "X08", "X11", "X12")
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
    script = "import sys; from regard.loadtest.commands import main; main(['--help']); print(sorted(sys.modules))"
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


def test_without_a_folder_of_cases_both_ways_to_name_one_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REGARD_CASES", raising=False)
    assert main(["cases"]) == 2
    assert "--cases or REGARD_CASES" in capsys.readouterr().err


def test_the_variable_names_the_folder_of_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGARD_CASES", str(tmp_path))
    assert main(["cases"]) == 1
    assert f"{tmp_path} holds no T01_empty.txt" in capsys.readouterr().err


def test_what_cases_have_shown_is_printed_before_the_next_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "T01_empty.txt").touch()
    printed: list[str] = []

    def first(_: object) -> list[Outcome]:
        return [Outcome("T01", "something", "this", "that", True)]

    def second(_: object) -> list[Outcome]:
        printed.append(capsys.readouterr().out)
        return []

    monkeypatch.setitem(CASES, "T01", first)
    monkeypatch.setitem(CASES, "T03", second)

    def connect(*_: object) -> Answering:
        return Answering()

    monkeypatch.setattr("tests.acceptance.run_cases.connect", connect)
    assert main(["cases", "--cases", str(tmp_path), "--address", "here", "--only", "T01", "--only", "T03"]) == 0
    assert "something" in printed[0]
    assert "1 trials of 1 cases, 0 not as expected" in capsys.readouterr().out


class Answering:
    """A server that takes every ordinary call."""

    translates = True

    def translate(self, text: str) -> Reply:
        return Reply("OK", "", TranslateResponse(), 0.0)


def test_a_private_server_takes_no_settings_from_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODELS", "elsewhere")
    monkeypatch.setenv("REGARD_ADDRESS", "elsewhere:1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    environment = child_environment()
    assert not [name for name in environment if name.startswith("REGARD_")]
    assert environment["LANG"] == "C.UTF-8"


def test_an_unknown_case_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cases", "--cases", str(tmp_path), "--only", "T99"]) == 2
    assert "no case T99" in capsys.readouterr().err


def test_every_case_is_tried_or_held_by_tests() -> None:
    assert sorted({*CASES, *TESTED}) == sorted((*TEXT, *IMAGES, *DECODING, *EXPORT, *TRANSPORT))


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


def test_progress_is_a_bar_on_a_terminal_and_nothing_elsewhere() -> None:
    seconds = iter(range(1000))
    for interactive in (True, False):
        stream = Terminal(interactive=interactive)
        bar = Progress("load", 20, stream=stream, clock=lambda: float(next(seconds)))  # pyright: ignore[reportArgumentType] - as much of a stream as it needs
        for done in range(25):
            bar.show(done)
        bar.close()
        assert ("100%" in stream.shown) == interactive
        assert stream.shown.count("\r") == (25 if interactive else 0)
        assert stream.shown.count("\n") == (1 if interactive else 0)


def test_progress_that_is_not_to_be_shown_leaves_a_terminal_alone() -> None:
    stream = Terminal(interactive=True)
    bar = Progress("load", 1, stream=stream, shown=False)  # pyright: ignore[reportArgumentType] - as above
    bar.show(1)
    bar.close()
    assert stream.shown == ""

"""`regard bench` teaches itself and imports only what is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard.loadtest.base.processes import child_environment
from regard.loadtest.base.progress import Progress
from regard.loadtest.base.text_table import text_table
from regard.loadtest.commands import COMMANDS, main


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


def test_a_private_server_takes_no_settings_from_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODELS", "elsewhere")
    monkeypatch.setenv("REGARD_ADDRESS", "elsewhere:1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    environment = child_environment()
    assert not [name for name in environment if name.startswith("REGARD_")]
    assert environment["LANG"] == "C.UTF-8"


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

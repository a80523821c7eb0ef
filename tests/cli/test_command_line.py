"""The command as a whole: help, wrong usage, exit statuses, and what it does not load."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import pytest
from tests.client.fake_server import FakeServer

from regard.cli.main import COMMANDS, main

HEAVY = ("torch", "onnxruntime", "locust", "matplotlib", "gevent", "tokenizers")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_teaches_by_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"usage: regard {name}")
    assert "example" in output
    assert f"regard {name}" in output.partition("example")[2]


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"\n  {name} " in output for name in COMMANDS)


def test_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "regard demo" in capsys.readouterr().err


def test_a_misspelt_command_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translat"]) == 2
    assert capsys.readouterr().err == "regard: no command 'translat'; did you mean `regard translate`?\n"


@pytest.mark.parametrize(
    "arguments",
    [["--verbose"], ["translate", "--beam", "many", "x"], ["translate", "--beams", "3"], ["models", "x"], ["bench"]],
)
def test_wrong_usage_is_told_in_one_line(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("regard: ")
    assert error.count("\n") == 1
    assert "--help" in error


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--beam", "0", "must be at least 1, got 0"),
        ("--beam", "many", "expected a whole number, got 'many'"),
        ("--no-repeat-ngram", "2147483648", "must be at most 2147483647, got 2147483648"),
        ("--timeout", "soon", "expected a number of seconds, got 'soon'"),
        ("--timeout", "nan", "must be a positive number of seconds, got 'nan'"),
    ],
)
def test_a_wrong_number_is_told_with_its_bound(
    flag: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", flag, value, "x"]) == 2
    assert f"argument {flag}: {said}" in capsys.readouterr().err


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("regard")


@pytest.mark.parametrize(
    ("name", "arguments", "module", "extra"),
    [
        ("train", ["anything"], "torch", "train"),
        ("serve", [], "onnxruntime", "serve"),
        ("bench", ["run"], "locust", "loadtest"),
        ("translate", ["x", "--attention", "a.png"], "matplotlib", "pictures"),
        ("caption", ["x", "--overlay", "a.png"], "PIL", "pictures"),
    ],
)
def test_a_missing_extra_is_named(
    name: str,
    arguments: list[str],
    module: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def lacks(_: object) -> int:
        raise ModuleNotFoundError(f"No module named {module!r}", name=f"{module}.part")

    command: ModuleType = import_module(f"regard.cli.commands.{name}")
    monkeypatch.setattr(command, "add_arguments", lambda parser: parser.add_argument("rest", nargs="*"))  # type: ignore[misc]
    monkeypatch.setattr(command, "run", lacks)
    assert main([name, *arguments[:1]]) == 1
    error = capsys.readouterr().err
    assert f"pip install '.[{extra}]'" in error
    assert error.count("\n") == 1


def test_a_command_that_ends_the_process_with_a_message_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(import_module("regard.cli.commands.models"), "run", lambda args: sys.exit("no\nmodels"))  # type: ignore[misc]
    assert main(["models"]) == 1
    assert capsys.readouterr().err == "regard: no models\n"


def test_an_interrupted_command_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("regard.cli.commands.models"), "run", interrupted)
    assert main(["models"]) == 130
    assert capsys.readouterr() == ("", "")


def run_in_new_interpreter(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["translate", "--help"], ["models", "--help"], ["translate", "x", "--address", "h:1x"]]
)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    code = (
        "import sys; from regard.cli.main import main; main(sys.argv[2:]); "
        "found = [name for name in sys.argv[1].split(',') if name in sys.modules]; "
        "sys.exit(f'loaded {found}' if found else 0)"
    )
    finished = run_in_new_interpreter(code, ",".join(HEAVY), *arguments)
    assert finished.returncode == 0, finished.stderr


def test_a_translation_loads_nothing_heavy(fake_server: FakeServer) -> None:
    code = (
        "import sys; from regard.cli.main import main; main(['translate', 'one', '--address', sys.argv[2]]); "
        "found = [name for name in sys.argv[1].split(',') if name in sys.modules]; "
        "sys.exit(f'loaded {found}' if found else 0)"
    )
    finished = run_in_new_interpreter(code, ",".join(HEAVY), fake_server.address)
    assert (finished.returncode, finished.stdout) == (0, "ONE\n"), finished.stderr


def test_a_closed_standard_output_is_told_in_one_line() -> None:
    finished = run_in_new_interpreter(
        "import sys; sys.stdout = None; from regard.cli.main import main; sys.exit(main(['models']))"
    )
    assert (finished.returncode, finished.stderr) == (1, "regard: standard output is closed\n")


def test_help_does_not_even_load_grpc() -> None:
    code = (
        "import sys; from regard.cli.main import main; main(['--help']); "
        "sys.exit(bool({'grpc', 'numpy'} & set(sys.modules)))"
    )
    assert run_in_new_interpreter(code).returncode == 0

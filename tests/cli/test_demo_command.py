"""`regard demo`: shows everything in order, names what it wrote, and says what is missing."""

import importlib.util
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from tests.client.fake_server import FakeServer

from regard.cli.commands.demo import PICTURES
from regard.cli.main import main


@pytest.fixture
def private_server(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> FakeServer:
    """Put the fake server where the demo would start a real one, and one small picture where its own are."""
    pictures = tmp_path_factory.mktemp("pictures")
    Image.new("RGB", (60, 40), "red").save(pictures / "square.png")
    monkeypatch.setattr("regard.cli.commands.demo.PICTURES", pictures)

    @contextmanager
    def served(command: Sequence[str]) -> Generator[SimpleNamespace]:
        yield SimpleNamespace(address=fake_server.address)

    monkeypatch.setattr("regard.loadtest.base.processes.served", served)
    return fake_server


def fake_load_test(monkeypatch: pytest.MonkeyPatch, *, status: int, writes: bool = True) -> list[Sequence[str]]:
    """Put something quick where the load test is; return the arguments of its calls."""
    calls: list[Sequence[str]] = []

    def load_test(arguments: Sequence[str], *, prog: str) -> int:
        calls.append(arguments)
        if writes:
            directory = Path(arguments[arguments.index("--output") + 1])
            directory.mkdir()
            (directory / "report.html").write_text("report")
        return status

    monkeypatch.setattr("regard.loadtest.commands.main", load_test)
    return calls


def draw_nothing(*_: object, **__: object) -> tuple[Path, ...]:
    return ()


def test_everything_is_shown_and_named(
    private_server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = fake_load_test(monkeypatch, status=0)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    output, error = capsys.readouterr()
    assert "toy 2: words in capitals" in output
    assert "\n  We are eating bread.\n  WE ARE EATING BREAD.\n    We→WE  are→ARE" in output
    assert "\n  square.png\n  a red square\n" in output
    named = [Path(line.strip()) for line in output.partition("Written in")[2].splitlines()[1:]]
    assert sorted(named) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert {path.suffix for path in named} == {".png", ".html"}
    assert tmp_path / "demo" / "caption-square.png" in named
    assert calls[0][:3] == ["run", "--address", private_server.address]
    assert error == ""


def test_without_a_captioner_the_rest_is_shown(
    private_server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.cli.commands.demo.draw", draw_nothing)
    calls = fake_load_test(monkeypatch, status=0)
    private_server.lists_captioner = False
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert "No model here captions pictures" in capsys.readouterr().out
    assert private_server.caption_requests == []
    assert len(calls) == 1


def test_every_photograph_is_credited_and_small() -> None:
    photographs = sorted(PICTURES.glob("*.jpg"))
    credits_ = (PICTURES / "README.md").read_text(encoding="utf-8")
    assert photographs
    for path in photographs:
        (row,) = [line for line in credits_.splitlines() if line.startswith(f"| `{path.name}` |")]
        assert any(terms in row for terms in ("| CC0 1.0 |", "| public domain |"))
        assert path.stat().st_size <= 120_000
        with Image.open(path) as image:
            assert (image.format, max(image.size) <= 640) == ("JPEG", True)


@pytest.mark.usefixtures("private_server")
def test_figures_that_cannot_be_trusted_do_not_spoil_the_demo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.cli.commands.demo.draw", draw_nothing)
    fake_load_test(monkeypatch, status=1)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert "does not trust its own figures" in capsys.readouterr().err


@pytest.mark.usefixtures("private_server")
def test_a_load_test_without_report_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.cli.commands.demo.draw", draw_nothing)
    fake_load_test(monkeypatch, status=1, writes=False)
    assert main(["demo", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "regard: the load test wrote no report (exit status 1)\n"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # type: ignore[misc]
    assert main(["demo"]) == 1
    error = capsys.readouterr().err
    assert "locust" in error
    assert "pip install '.[serve,pictures,loadtest]'" in error


def test_models_that_are_not_there_are_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["demo", "--out", str(tmp_path / "demo"), "--models", str(empty)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("regard: the private server did not start")
    assert error.count("\n") == 1

"""`regard ladder`: says what is missing, writes its page, and writes it again from its figures alone."""

import json
from pathlib import Path

import pytest
from tests.training.toy_ladder import RECURRENT, write_data, write_rungs

from regard.cli.main import main
from regard.training.studies.ladder import lengths as ladder_lengths


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder_lengths, "RESAMPLES", 10)
    monkeypatch.delenv("REGARD_DATA", raising=False)


def draw_nothing(*_: object, **__: object) -> tuple[Path, ...]:
    return ()


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_page_is_written_and_written_again_without_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, data = write_rungs(tmp_path / "runs"), write_data(tmp_path / "data")
    first, second = tmp_path / "first" / "ladder.md", tmp_path / "second" / "ladder.md"
    command = ["ladder", "--runs", str(runs), "--data", str(data), "--beam", "2", "--docs", str(first)]
    assert main(command) == 0
    named = capsys.readouterr().out.split()
    assert sorted(named) == sorted(str(path) for path in first.parent.rglob("*") if path.is_file())
    text = first.read_text(encoding="utf-8")
    assert "Not trained yet, and so not in what follows: **Transformer**" in text
    for name in written(first.parent / "images"):
        assert f"](images/{name})" in text
    assert main(["ladder", "--from-json", str(first.with_suffix(".json")), "--docs", str(second)]) == 0
    again = written(second.parent)
    assert {**again, "ladder.json": b""} == {**written(first.parent), "ladder.json": b""}


def test_the_transformer_joins_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Which another test looks at.
    for drawn in (
        "regard.training.studies.ladder.figures.draw_figures",
        "regard.client.drawing.pictures.write_attention",
    ):
        monkeypatch.setattr(drawn, draw_nothing)
    runs = write_rungs(tmp_path / "runs", (*RECURRENT, "multi30k_transformer"))
    data, page = write_data(tmp_path / "data"), tmp_path / "ladder.md"
    assert main(["ladder", "--runs", str(runs), "--data", str(data), "--beam", "1", "--docs", str(page)]) == 0
    assert "Not trained yet" not in page.read_text(encoding="utf-8")
    assert len(json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))["rungs"]) == 4


def test_a_missing_rung_is_named_with_how_to_make_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, data = write_rungs(tmp_path / "runs", RECURRENT[1:]), write_data(tmp_path / "data")
    assert main(["ladder", "--runs", str(runs), "--data", str(data)]) == 1
    shown = capsys.readouterr().err
    assert "no attention in" in shown
    assert "regard train multi30k_plain --data" in shown
    assert shown.count("\n") == 1


def test_a_page_without_a_rung_says_so_where_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.training.studies.ladder.figures.draw_figures", draw_nothing)
    runs, data = write_rungs(tmp_path / "runs", RECURRENT[:1]), write_data(tmp_path / "data")
    page = tmp_path / "ladder.md"
    command = ["ladder", "--runs", str(runs), "--data", str(data), "--beam", "1", "--docs", str(page)]
    assert main([*command, "--partial"]) == 0
    assert "Not trained yet" in page.read_text(encoding="utf-8")
    assert "**fixed context, additive attention, Transformer**" in page.read_text(encoding="utf-8")


def test_missing_data_are_named_before_anything_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ladder", "--runs", str(tmp_path)]) == 1
    assert "--data or REGARD_DATA" in capsys.readouterr().err
    assert main(["ladder", "--runs", str(tmp_path), "--data", str(tmp_path)]) == 1
    assert "train.en.gz is missing" in capsys.readouterr().err
    data = write_data(tmp_path / "data")
    (data / "alignments" / "bicici-de-en" / "test.tsv").unlink()
    assert main(["ladder", "--runs", str(tmp_path), "--data", str(data)]) == 1
    assert "test.tsv is missing" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--runs", "a", "--from-json", "b"]])
def test_either_runs_or_figures_are_needed(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ladder", *options]) == 2
    assert "either --runs DIR or --from-json FILE" in capsys.readouterr().err


def test_candidates_are_listed_and_nothing_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, data = write_rungs(tmp_path / "runs"), write_data(tmp_path / "data")
    page = tmp_path / "ladder.md"
    command = ["ladder", "--runs", str(runs), "--data", str(data), "--docs", str(page), "--candidates", "2"]
    assert main([*command, "--beam", "1"]) == 0
    assert "monotone:" in capsys.readouterr().out
    assert not page.exists()


def test_missing_rungs_are_trained_where_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, data = write_rungs(tmp_path / "runs", RECURRENT[:1]), write_data(tmp_path / "data")
    trained: list[str] = []

    def train(recipe: object, *, out: Path, **_: object) -> None:
        trained.append(out.name)
        write_rungs(out.parent, (out.name,))

    monkeypatch.setattr("regard.training.runs.translation.train", train)
    command = ["ladder", "--runs", str(runs), "--data", str(data), "--train"]
    assert main([*command, "--beam", "1", "--candidates", "1"]) == 0
    assert trained == [*RECURRENT[1:], "multi30k_transformer"]

"""Runs that learn from another model's translations: which they are, how they are kept, and when they are refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from training import checkpoint, distillation
from training.__main__ import main
from training.distillation import TeacherError, teach
from training.evaluate import translate
from training.fit import Hardware
from training.recipe import Recipe
from training.search import SearchConfig
from training.toy_data import read_toy
from training.toy_recipes import toy_reverse
from training.translation import train
from training.translation_data import Corpus, Pair, References

CPU = Hardware(accelerator="cpu", threads=1)
PAIRS = read_toy(reverse=True, pairs=12).train


def few(_: Path) -> Corpus:
    return read_toy(reverse=True, pairs=60)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("teacher")
    recipe = toy_reverse()
    fit = replace(recipe.fit, epochs=1, average_decay=0.0)
    train(replace(recipe, read=few, fit=fit, measured_sources=5), data=Path(), out=out, hardware=CPU)
    return out


@pytest.fixture
def taught() -> Recipe:
    """A recipe that learns from it."""
    recipe = toy_reverse()
    fit = replace(recipe.fit, epochs=1, average_decay=0.0)
    return replace(recipe, name="taught", read=few, fit=fit, measured_sources=5, taught=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run" / "taught.jsonl"


def test_every_source_comes_once_with_what_the_teacher_makes_of_it(teacher: Path, file: Path) -> None:
    twice = [*PAIRS, PAIRS[0]._replace(target="another")]
    found = checkpoint.load(teacher / "best")
    said = translate(
        found.model, found.vocabulary, [References(p.source, ()) for p in PAIRS], SearchConfig(beam_size=5)
    )
    wanted = [Pair(pair.source, text) for pair, text in zip(PAIRS, said, strict=True)]
    assert teach(twice, file=file, teacher=teacher).pairs == wanted


def test_the_teacher_is_named(teacher: Path, file: Path) -> None:
    origin = teach(PAIRS, file=file, teacher=teacher).origin
    assert origin["recipe"] == "toy_reverse"
    assert origin["sha256"] == checkpoint.weights_digest(teacher / "best")


def test_once_all_are_translated_no_teacher_is_needed(teacher: Path, file: Path) -> None:
    assert teach(PAIRS, file=file, teacher=teacher) == teach(PAIRS, file=file, teacher=None)


@pytest.mark.parametrize("cut", [1, 8, 40], ids=["line end", "in the last line", "some lines"])
def test_it_goes_on_where_it_was_interrupted(
    teacher: Path, file: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    whole = teach(PAIRS, file=file, teacher=teacher)
    text = file.read_text()
    file.write_text(text[:-cut])
    asked: list[int] = []

    def count(model: object, vocabulary: object, texts: list[References], config: SearchConfig) -> list[str]:
        asked.append(len(texts))
        return translate(model, vocabulary, texts, config)  # pyright: ignore[reportArgumentType]  passed on

    monkeypatch.setattr(distillation, "translate", count)
    assert teach(PAIRS, file=file, teacher=teacher) == whole
    assert sorted(file.read_text().split("\n")) == sorted(text.split("\n"))
    assert 1 <= sum(asked) < len(PAIRS)


def test_what_is_lacking_asks_for_a_teacher(teacher: Path, file: Path) -> None:
    with pytest.raises(TeacherError, match="lacks translations: give the folder of the run that makes them by --teach"):
        teach(PAIRS, file=file, teacher=None)
    teach(PAIRS, file=file, teacher=teacher)
    file.write_text(file.read_text()[:-20])
    with pytest.raises(TeacherError, match="lacks translations"):
        teach(PAIRS, file=file, teacher=None)


def test_translations_of_other_sentences_are_refused(teacher: Path, file: Path) -> None:
    teach(PAIRS, file=file, teacher=teacher)
    with pytest.raises(TeacherError, match="has translations of other sentences"):
        teach(PAIRS[1:], file=file, teacher=None)


def test_translations_by_another_teacher_are_refused(teacher: Path, file: Path, tmp_path: Path) -> None:
    teach(PAIRS, file=file, teacher=teacher)
    other = checkpoint.load(teacher / "best")
    for parameter in other.model.parameters():
        parameter.data.add_(0.01)
    checkpoint.save(tmp_path / "other", other)
    with pytest.raises(TeacherError, match="has translations by another teacher"):
        teach(PAIRS, file=file, teacher=tmp_path / "other")


@pytest.mark.parametrize("text", ["[]\n", "{}\n", "no JSON\n", '{"sources": "a"}\n[1]\n'])
def test_a_damaged_file_is_named(teacher: Path, file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(TeacherError, match="is damaged: remove it"):
        teach(PAIRS, file=file, teacher=teacher)


def test_a_run_learns_from_both_and_says_by_whom(teacher: Path, taught: Recipe, tmp_path: Path) -> None:
    train(taught, data=Path(), out=tmp_path, hardware=CPU, teacher=teacher)
    found = checkpoint.load(tmp_path / "best")
    people = len(few(Path()).train)
    translated = len((tmp_path / "taught.jsonl").read_text().splitlines()) - 1
    assert found.provenance["data"]["train"] == people + translated
    assert found.provenance["teacher"] == json.loads((tmp_path / "taught.jsonl").read_text().split("\n")[0])


def test_a_teacher_that_nobody_learns_from_is_refused(
    capsys: pytest.CaptureFixture[str], teacher: Path, tmp_path: Path
) -> None:
    for recipe in ("toy_reverse", "toy_squares"):
        assert main([recipe, "--out", str(tmp_path / recipe), "--teacher", str(teacher)]) == 1
        assert "leave out --teacher" in capsys.readouterr().err
        assert not (tmp_path / recipe).exists()

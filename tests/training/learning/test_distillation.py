"""Runs that learn from another model's translations: which they are, how they are kept, and when they are refused."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from regard.training.__main__ import main
from regard.training.data.toy_data import read_toy
from regard.training.data.translation_data import Corpus, Pair, References
from regard.training.decoding.search import SearchConfig, search_all
from regard.training.learning import checkpoint, distillation
from regard.training.learning.checkpoint import Checkpoint
from regard.training.learning.distillation import TeacherError, teach
from regard.training.learning.fit import Hardware
from regard.training.learning.recipe import Recipe
from regard.training.learning.warm_start import StartError, descent, describe_run
from regard.training.recipes.toys import toy_reverse, toy_reverse_transformer
from regard.training.runs.translation import train

CPU = Hardware(accelerator="cpu", threads=1)
PAIRS = [*read_toy(reverse=True, pairs=12).train, Pair("größe 雪\u2028\u0085\r", "x")]


def few(_: Path) -> Corpus:
    return read_toy(reverse=True, pairs=60)


def recipe(name: str) -> Recipe:
    made = toy_reverse()
    fit = replace(made.fit, epochs=1, average_decay=0.0)
    return replace(made, name=name, read=few, fit=fit, measured_sources=5, taught=name == "taught")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; nobody may write to it."""
    out = tmp_path_factory.mktemp("teacher")
    train(recipe("toy_reverse"), data=Path(), out=out, hardware=CPU)
    return out


@pytest.fixture
def taught() -> Recipe:
    """A recipe that learns from it."""
    return recipe("taught")


@pytest.fixture
def other(teacher: Path, tmp_path: Path) -> Path:
    """A teacher with other weights."""
    found = checkpoint.load(teacher / "best")
    for parameter in found.model.parameters():
        parameter.data.add_(0.01)
    checkpoint.save(tmp_path / "other", found)
    return tmp_path / "other"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that a teacher was asked for, who translates them by itself no more."""
    asked: list[str] = []

    def echo(found: Checkpoint, texts: Sequence[References]) -> Iterable[str | None]:
        asked.extend(text.source for text in texts)
        return [f"»{text.source}«" for text in texts]

    monkeypatch.setattr(distillation, "_translations", echo)
    return asked


def test_every_source_comes_once_with_what_the_teacher_makes_of_it(
    teacher: Path, taught: Recipe, tmp_path: Path
) -> None:
    twice = [*PAIRS, PAIRS[0]._replace(target="another")]
    found = checkpoint.load(teacher / "best")
    sources = found.vocabulary.encode_all([pair.source for pair in PAIRS])
    best = [hypotheses[0] for hypotheses in search_all(found.model, sources, SearchConfig(beam_size=5))]
    wanted = [
        Pair(pair.source, found.vocabulary.decode(one.tokens))
        for pair, one in zip(PAIRS, best, strict=True)
        if one.finish == "end" and len(one.tokens) > 1
    ]
    assert len(wanted) > 1
    assert teach(taught, twice, out=tmp_path, teacher=teacher).pairs == wanted


def test_what_came_to_no_end_is_left_out(
    teacher: Path, taught: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(teach(taught, PAIRS, out=tmp_path / "any", teacher=teacher).pairs) > 1
    monkeypatch.setattr(distillation, "_SEARCH", SearchConfig(beam_size=5, max_length=1))
    assert not teach(taught, PAIRS, out=tmp_path / "one", teacher=teacher).pairs
    assert not teach(taught, PAIRS, out=tmp_path / "one", teacher=None).pairs


def test_the_teacher_is_named(teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str]) -> None:
    origin = teach(taught, PAIRS, out=tmp_path, teacher=teacher).origin
    assert origin["recipe"] == "toy_reverse"
    assert origin["sha256"] == checkpoint.weights_digest(teacher / "best")
    assert origin["data"] == few(Path()).origin


def test_once_all_are_translated_no_teacher_is_needed(
    teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str]
) -> None:
    whole = teach(taught, PAIRS, out=tmp_path, teacher=teacher)
    assert whole.pairs == [Pair(pair.source, f"»{pair.source}«") for pair in PAIRS]
    assert teach(taught, PAIRS, out=tmp_path, teacher=None) == whole
    assert len(asked) == len(PAIRS)


def test_it_goes_on_wherever_it_was_interrupted(
    teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str]
) -> None:
    whole = teach(taught, PAIRS, out=tmp_path, teacher=teacher)
    file = tmp_path / "taught.jsonl"
    written = file.read_bytes()
    for cut in range(len(written)):
        file.write_bytes(written[:cut])
        asked.clear()
        assert teach(taught, PAIRS, out=tmp_path, teacher=teacher) == whole
        assert sorted(file.read_bytes().split(b"\n")) == sorted(written.split(b"\n"))
        assert len(asked) == len(PAIRS) - max(written[:cut].count(b"\n") - 1, 0)


def test_what_is_lacking_asks_for_a_teacher(teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str]) -> None:
    with pytest.raises(TeacherError, match="lacks translations: give the folder of the run that makes them by --teach"):
        teach(taught, PAIRS, out=tmp_path, teacher=None)
    teach(taught, PAIRS, out=tmp_path, teacher=teacher)
    file = tmp_path / "taught.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(TeacherError, match="lacks translations"):
        teach(taught, PAIRS, out=tmp_path, teacher=None)


@pytest.mark.parametrize("others", [PAIRS[1:], [*PAIRS[1:], PAIRS[0]], [*PAIRS[:-1], Pair("größe", "x")]])
def test_translations_of_other_sentences_are_refused(
    teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str], others: list[Pair]
) -> None:
    teach(taught, PAIRS, out=tmp_path, teacher=teacher)
    with pytest.raises(TeacherError, match="has translations of other sentences"):
        teach(taught, others, out=tmp_path, teacher=None)


def test_translations_by_another_teacher_are_refused(
    teacher: Path, other: Path, taught: Recipe, tmp_path: Path, asked: list[str]
) -> None:
    teach(taught, PAIRS, out=tmp_path, teacher=teacher)
    with pytest.raises(TeacherError, match="has translations by another teacher"):
        teach(taught, PAIRS, out=tmp_path, teacher=other)


def test_a_run_that_began_with_another_teacher_is_not_gone_on_with(
    teacher: Path, other: Path, taught: Recipe, tmp_path: Path, asked: list[str]
) -> None:
    out = tmp_path / "run"
    train(taught, data=Path(), out=out, hardware=CPU, teacher=teacher)
    (out / "taught.jsonl").unlink()
    asked.clear()
    with pytest.raises(TeacherError, match="holds a run that learnt from another teacher"):
        train(taught, data=Path(), out=out, hardware=CPU, teacher=other)
    assert not asked


@pytest.mark.parametrize(
    "body",
    [
        "[1]",
        "null",
        "no JSON",
        '[0.7, "x"]',
        '[true, "x"]',
        '[1e400, "x"]',
        '[13, "x"]',
        '[-1, "x"]',
        "[0, 1]",
        '[0, ["x"]]',
        '{"0": 1, "x": 2}',
        '[0, "\\ud800"]',
        '"0x"',
    ],
)
def test_a_damaged_line_is_reported(teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str], body: str) -> None:
    teach(taught, PAIRS, out=tmp_path, teacher=teacher)
    file = tmp_path / "taught.jsonl"
    file.write_text(file.read_text().partition("\n")[0] + f"\n{body}\n")
    with pytest.raises(TeacherError, match="is damaged: remove it"):
        teach(taught, PAIRS, out=tmp_path, teacher=teacher)


@pytest.mark.parametrize("head", [b"[]", b"{}", b"no JSON", b"\xff", b'{"sources": "a"}', b""])
def test_a_damaged_head_is_reported(taught: Recipe, tmp_path: Path, head: bytes) -> None:
    (tmp_path / "taught.jsonl").write_bytes(head + b"\n")
    with pytest.raises(TeacherError, match="is damaged: remove it"):
        teach(taught, PAIRS, out=tmp_path, teacher=None)


def spanish(found: Checkpoint) -> Checkpoint:
    return replace(found, provenance={**found.provenance, "languages": {"source": "en", "targets": ["es", "fr"]}})


def spanish_as_once_written(found: Checkpoint) -> Checkpoint:
    return replace(found, provenance={**found.provenance, "languages": {"source": "en", "target": "es"}})


@pytest.mark.parametrize(
    ("change", "said"), [(spanish, "from en into es, fr, but"), (spanish_as_once_written, "from en into es, but")]
)
def test_a_teacher_of_other_languages_is_refused_before_it_says_a_word(
    teacher: Path,
    taught: Recipe,
    tmp_path: Path,
    asked: list[str],
    change: Callable[[Checkpoint], Checkpoint],
    said: str,
) -> None:
    checkpoint.save(tmp_path / "other", change(checkpoint.load(teacher / "best")))
    with pytest.raises(TeacherError, match=said):
        teach(taught, PAIRS, out=tmp_path / "run", teacher=tmp_path / "other")
    assert not (tmp_path / "run").exists()


def test_a_run_learns_from_both_and_says_by_whom(
    teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str]
) -> None:
    train(taught, data=Path(), out=tmp_path, hardware=CPU, teacher=teacher)
    found = checkpoint.load(tmp_path / "best")
    assert found.provenance["data"]["train"] == len(few(Path()).train) + len(asked)
    assert found.provenance["teacher"] == json.loads((tmp_path / "taught.jsonl").read_text().split("\n")[0])


def test_vocabulary_is_that_of_what_people_wrote(
    teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str]
) -> None:
    train(taught, data=Path(), out=tmp_path, hardware=CPU, teacher=teacher)
    found, untaught = checkpoint.load(tmp_path / "best"), checkpoint.load(teacher / "best")
    assert found.vocabulary.digest == untaught.vocabulary.digest


def test_runs_that_go_on_means_and_pupils_remember_who_taught(teacher: Path) -> None:
    folder = teacher / "best"
    found = checkpoint.load(folder)
    better = replace(found, recipe="better", provenance={"data": {"origin": "books"}})
    taught = replace(found, recipe="taught", provenance={"teacher": describe_run(better, folder)})
    after = replace(found, recipe="after", provenance={"start": describe_run(taught, folder)})
    mean = replace(found, recipe="mean", provenance={"average": [{"recipe": "other"}, describe_run(after, folder)]})
    pupil = replace(found, recipe="pupil", provenance={"teacher": describe_run(mean, folder)})
    recipes = ["pupil", "mean", "other", "after", "taught", "better"]
    for number, run in enumerate((pupil, mean)):
        assert [each["recipe"] for each in descent(run)] == recipes[number:]
    assert descent(pupil)[-1]["data"] == "books"
    assert descent(pupil)[-2]["teacher"] == descent(pupil)[-1]
    assert [each["recipe"] for each in descent(found)] == ["toy_reverse"]


def test_a_start_that_does_not_fit_is_refused_before_the_teacher_says_a_word(
    teacher: Path, taught: Recipe, tmp_path: Path, asked: list[str]
) -> None:
    transformer = replace(taught, model=toy_reverse_transformer().model)
    with pytest.raises(StartError, match="trains a Transformer"):
        train(transformer, data=Path(), out=tmp_path, hardware=CPU, start_from=teacher, teacher=teacher)
    assert not asked


def test_a_teacher_that_nobody_learns_from_is_refused(
    capsys: pytest.CaptureFixture[str], teacher: Path, tmp_path: Path
) -> None:
    for name in ("toy_reverse", "toy_squares"):
        for more in ((), ("--evaluate-only",)):
            assert main([name, "--out", str(tmp_path / name), "--teacher", str(teacher), *more]) == 1
            assert "leave out --teacher" in capsys.readouterr().err
        assert not (tmp_path / name).exists()

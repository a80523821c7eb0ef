"""Runs that start from the weights of another: what they take over, and when they are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.training.__main__ import main
from regard.training.data.toy_data import read_toy
from regard.training.data.translation_data import Corpus
from regard.training.data.vocabulary import Vocabulary
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.learning.fit import Hardware
from regard.training.learning.recipe import Recipe
from regard.training.learning.warm_start import StartError, find_start, started_from, take_weights
from regard.training.models.rnn import Rnn, RnnConfig
from regard.training.recipes.toys import toy_reverse, toy_reverse_transformer
from regard.training.runs.translation import train

CPU = Hardware(accelerator="cpu", threads=1)


def few(_: Path) -> Corpus:
    return read_toy(reverse=True, pairs=60)


def tiny(recipe: Recipe, *, epochs: int = 1, rate: float | None = None) -> Recipe:
    """The same run on very little."""
    fit = replace(recipe.fit, epochs=epochs, learning_rate=rate or recipe.fit.learning_rate, average_decay=0.0)
    return replace(recipe, read=few, fit=fit, measured_sources=5)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("first")
    train(tiny(toy_reverse()), data=Path(), out=out, hardware=CPU)
    return out


@pytest.fixture
def second() -> Recipe:
    """A recipe that has to start from it, and hardly moves."""
    return replace(tiny(toy_reverse(), rate=1e-9), name="second", starts_from="toy_reverse", vocabulary=40)


def begin(second: Recipe, first: Path | None, out: Path) -> Checkpoint:
    train(second, data=Path(), out=out, hardware=CPU, start_from=first)
    return checkpoint.load(out / "latest")


def test_weights_and_vocabulary_are_those_of_the_run_before(first: Path, second: Recipe, tmp_path: Path) -> None:
    before, after = checkpoint.load(first / "best"), begin(second, first, tmp_path)
    assert after.vocabulary.digest == before.vocabulary.digest
    kept = dict(before.model.named_parameters())
    for name, parameter in after.model.named_parameters():
        torch.testing.assert_close(parameter, kept[name], rtol=0, atol=1e-5, msg=name)


def test_a_checkpoint_says_where_its_run_started(first: Path, second: Recipe, tmp_path: Path) -> None:
    after = begin(second, first, tmp_path)
    assert started_from(after) == ["toy_reverse"]
    assert after.provenance["start"]["sha256"] == checkpoint.weights_digest(first / "best")


def test_it_goes_on_with_or_without_being_told_the_start_again(first: Path, second: Recipe, tmp_path: Path) -> None:
    begin(second, first, tmp_path)
    begin(replace(second, fit=replace(second.fit, epochs=2)), None, tmp_path)
    after = begin(replace(second, fit=replace(second.fit, epochs=3)), first, tmp_path)
    assert after.metrics["epoch"] == 3
    assert started_from(after) == ["toy_reverse"]


def test_a_recipe_that_goes_on_from_another_says_so(second: Recipe, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="goes on from a finished run of toy_reverse: give its folder by --start-from"):
        begin(second, None, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_run_that_began_otherwise_is_not_gone_on_with(first: Path, second: Recipe, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="holds a run that started from nothing"):
        find_start(toy_reverse(), out=first, run=first)
    after = begin(second, first, tmp_path)
    checkpoint.save(tmp_path / "other", after)  # after a step, so other weights
    with pytest.raises(StartError, match="started from other weights, those of toy_reverse after epoch 1"):
        find_start(second, out=tmp_path, run=tmp_path / "other")


def test_a_folder_without_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no checkpoint: neither config\.json nor best/ nor latest/"):
        find_start(toy_reverse(), out=tmp_path, run=tmp_path)


def test_other_sizes_are_named(learnt: tuple[Vocabulary, int]) -> None:
    vocabulary, output = learnt
    sizes = RnnConfig(vocabulary=vocabulary.size, output=output, embedding=4, encoder=3, decoder=4, attention=3)
    found = Checkpoint(recipe="x", model=Rnn(sizes), vocabulary=vocabulary, metrics={}, provenance={})
    with pytest.raises(StartError, match="it has encoder 5 and not 3, decoder 6 and not 4"):
        take_weights(Rnn(replace(sizes, encoder=5, decoder=6)), found)
    take_weights(Rnn(replace(sizes, dropout=0.5)), found)


def test_another_kind_of_model_is_named(first: Path, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="trains a Transformer, but the run to start from holds a Rnn"):
        begin(tiny(toy_reverse_transformer()), first, tmp_path)


def test_a_language_that_the_first_run_did_not_know_is_named(first: Path, second: Recipe, tmp_path: Path) -> None:
    corpus = read_toy(reverse=True, pairs=5)

    def korean(_: Path) -> Corpus:
        return replace(corpus, train=[pair._replace(language="ko") for pair in corpus.train])

    with pytest.raises(ValueError, match="no entry for the target language ko"):
        begin(replace(second, read=korean), first, tmp_path)


def test_the_command_reports_a_start_that_is_missing_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["toy_copy", "--out", str(tmp_path / "run"), "--start-from", str(tmp_path / "none")]) == 1
    shown = capsys.readouterr().err
    assert "holds no checkpoint" in shown
    assert shown.count("\n") == 1

"""Whole runs on toys: they learn, stop, go on, and leave what they promise."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.training.data.toy_data import read_toy
from regard.training.data.translation_data import BatchConfig, Corpus, TranslationData
from regard.training.data.vocabulary import Vocabulary
from regard.training.decoding.search import SearchConfig
from regard.training.learning import checkpoint
from regard.training.learning.fit import FitConfig, Hardware, fit
from regard.training.learning.progress import read_log
from regard.training.learning.recipe import GoldAlignments, Recipe
from regard.training.models.rnn import Rnn, RnnConfig
from regard.training.recipes.toys import toy_copy, toy_reverse
from regard.training.runs.translation import evaluate, train

CPU = Hardware(accelerator="cpu", threads=1)


def small(recipe: Recipe, epochs: int) -> Recipe:
    """The same run on a tenth of the data."""

    def read(_: Path) -> Corpus:
        return read_toy(reverse=True, pairs=150)

    return replace(
        recipe,
        read=read,
        fit=replace(recipe.fit, epochs=epochs),
        measured_sources=10,
    )


class KilledError(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("make", [toy_copy, toy_reverse])
def test_a_toy_is_learnt(make: Callable[[], Recipe], tmp_path: Path) -> None:
    recipe = make()
    train(recipe, data=Path(), out=tmp_path, hardware=CPU)
    figures = evaluate(recipe, data=Path(), folder=tmp_path / "best", config=SearchConfig(beam_size=2))
    assert {figure.metric: figure.value for figure in figures}["exact"] > 60
    assert checkpoint.load(tmp_path / "best").metrics["figures"]
    assert (tmp_path / "best").is_symlink()


def test_a_killed_run_goes_on_after_its_last_whole_epoch(tmp_path: Path) -> None:
    corpus = read_toy(reverse=True, pairs=100)
    vocabulary, output = Vocabulary.train(
        [pair.source for pair in corpus.train], [pair.target for pair in corpus.train], size=64
    )
    data = TranslationData(corpus, vocabulary, BatchConfig(tokens=200), output=output, seed=1)
    done: list[int] = []

    def run(epochs_to_live: int) -> None:
        torch.manual_seed(1)
        model = Rnn(
            RnnConfig(vocabulary=vocabulary.size, output=output, embedding=8, encoder=4, decoder=8, attention=4)
        )

        def measure(model: nn.Module) -> Mapping[str, float]:
            return {}

        def keep(model: nn.Module, epoch: int, figures: Mapping[str, float], best: bool) -> None:
            if epoch > epochs_to_live:
                raise KilledError
            done.append(epoch)

        fit(
            model,
            data,
            FitConfig(epochs=4, average_decay=0.9),
            hardware=CPU,
            folder=tmp_path,
            measure=measure,
            keep=keep,
        )

    with pytest.raises(KilledError):
        run(epochs_to_live=2)
    run(epochs_to_live=4)
    assert done == [1, 2, 3, 4]
    updates = [update for update, _ in read_log(tmp_path)["valid_loss"]]
    assert updates == sorted(updates)
    assert len(updates) >= 4


def test_going_on_uses_the_vocabulary_that_was_learnt_first(tmp_path: Path) -> None:
    recipe = small(toy_reverse(), epochs=1)
    train(recipe, data=Path(), out=tmp_path, hardware=CPU)
    first = checkpoint.load(tmp_path / "latest").vocabulary.digest
    train(replace(small(recipe, epochs=2), vocabulary=40), data=Path(), out=tmp_path, hardware=CPU)
    found = checkpoint.load(tmp_path / "latest")
    assert (found.vocabulary.digest, found.metrics["epoch"]) == (first, 2)


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    train(small(toy_reverse(), epochs=1), data=Path(), out=tmp_path, hardware=CPU)
    with pytest.raises(ValueError, match="holds a run of toy_reverse, so toy_copy cannot go on there"):
        train(small(toy_copy(), epochs=1), data=Path(), out=tmp_path, hardware=CPU)


def test_gold_alignments_that_a_recipe_names_are_scored(tmp_path: Path) -> None:
    (tmp_path / "gold.tsv").write_text("cat dog\tdog cat\t0-1 1-0\n")
    recipe = replace(small(toy_reverse(), epochs=1), alignments=(GoldAlignments(file="gold.tsv"),))
    train(recipe, data=tmp_path, out=tmp_path / "run", hardware=CPU)
    figures = evaluate(recipe, data=tmp_path, folder=tmp_path / "run" / "best", config=SearchConfig())
    (rate,) = [figure for figure in figures if figure.metric == "aer"]
    assert rate.test_set == "gold.tsv, 1 pairs"
    assert 0 <= rate.value <= 100


def test_a_model_that_looks_at_nothing_has_no_alignments_to_score(tmp_path: Path) -> None:
    (tmp_path / "gold.tsv").write_text("cat dog\tdog cat\t0-1 1-0\n")

    def plain(vocabulary: int, output: int) -> Rnn:
        sizes = RnnConfig(vocabulary=vocabulary, output=output, embedding=8, encoder=8, decoder=8, context="fixed")
        return Rnn(sizes)

    recipe = replace(small(toy_reverse(), epochs=1), model=plain, alignments=(GoldAlignments(file="gold.tsv"),))
    train(recipe, data=tmp_path, out=tmp_path / "run", hardware=CPU)
    figures = evaluate(recipe, data=tmp_path, folder=tmp_path / "run" / "best", config=SearchConfig())
    assert figures
    assert "aer" not in {figure.metric for figure in figures}


def test_curves_are_drawn_and_old_epochs_removed(tmp_path: Path) -> None:
    train(small(toy_reverse(), epochs=4), data=Path(), out=tmp_path, hardware=CPU)
    assert (tmp_path / "curves.svg").read_text().count("valid_chrf") >= 1
    kept = {(tmp_path / name).resolve() for name in ("latest", "best")}
    assert {path.resolve() for path in tmp_path.glob("epoch-*")} == kept


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0},
        {"patience": 0},
        {"warm_up": 1.5},
        {"label_smoothing": 1.0},
        {"average_decay": -0.1},
        {"learning_rate": 0},
    ],
)
def test_impossible_runs_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is "):
        FitConfig(**{"epochs": 1, **settings})  # pyright: ignore[reportArgumentType]  wrong on purpose


def test_ctrl_c_is_an_interrupt_and_not_a_failure(tmp_path: Path) -> None:
    corpus = read_toy(reverse=True, pairs=20)
    vocabulary, output = Vocabulary.train(
        [pair.source for pair in corpus.train], [pair.target for pair in corpus.train], size=64
    )
    data = TranslationData(corpus, vocabulary, BatchConfig(tokens=200), output=output, seed=1)
    model = Rnn(RnnConfig(vocabulary=vocabulary.size, output=output, embedding=8, encoder=4, decoder=8, attention=4))

    def measure(model: nn.Module) -> Mapping[str, float]:
        signal.raise_signal(signal.SIGINT)
        return {}

    def keep(model: nn.Module, epoch: int, figures: Mapping[str, float], best: bool) -> None:
        raise AssertionError("interrupted before")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # some parents ignore it
    said: list[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            fit(
                model,
                data,
                FitConfig(epochs=1),
                hardware=CPU,
                folder=tmp_path,
                measure=measure,
                keep=keep,
                say=said.append,
            )
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(said) == 1
    assert "1 epochs of about" in said[0]

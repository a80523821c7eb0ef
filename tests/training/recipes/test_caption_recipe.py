"""A caption recipe from end to end on made-up pictures: learnt in seconds, kept, scored, gone on with."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.training.data.toy_pictures import CELLS, describe_square, draw_square
from regard.training.decoding.search import SearchConfig, search
from regard.training.learning import checkpoint
from regard.training.learning.fit import Hardware
from regard.training.learning.recipe import CaptionRecipe
from regard.training.models.captioner import Captioner
from regard.training.recipes.catalogue import RECIPES
from regard.training.runs import captioning

HARDWARE = Hardware(accelerator="cpu", threads=1)


def recipe(name: str = "toy_squares", **changed: int) -> CaptionRecipe:
    found = RECIPES[name]()
    assert isinstance(found, CaptionRecipe)
    fit = replace(found.fit, **{key: value for key, value in changed.items() if key == "epochs"})
    return replace(found, fit=fit, **{key: value for key, value in changed.items() if key != "epochs"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; nobody may write to it."""
    out = tmp_path_factory.mktemp("run")
    captioning.train(recipe(), data=Path(), out=out, hardware=HARDWARE)
    return out


def test_colour_and_place_are_learnt(run: Path) -> None:
    found = checkpoint.load(run / "best")
    pixels = torch.stack([torch.tensor(draw_square("blue", 2, 0, ground=180))])
    (hypotheses,) = search(found.model, pixels, torch.tensor([9]), SearchConfig(max_length=12))  # type: ignore[arg-type]
    assert found.vocabulary.decode(hypotheses[0].tokens) == describe_square("blue", 2, 0).lower().removesuffix(" .")


def test_the_word_of_the_colour_looks_at_the_square(run: Path) -> None:
    found = checkpoint.load(run / "best")
    assert isinstance(found.model, Captioner)
    places = [(row, column) for row in range(CELLS) for column in range(CELLS)]
    pixels = torch.stack([torch.tensor(draw_square("red", row, column, ground=200)) for row, column in places])
    hypotheses = [each[0] for each in search(found.model, pixels, torch.tensor([9] * 9), SearchConfig(max_length=12))]
    seen = [int(each.attention[1, 0, 0].argmax()) for each in hypotheses]
    assert sum(cell == CELLS * row + column for cell, (row, column) in zip(seen, places, strict=True)) >= 7


def test_a_checkpoint_holds_the_whole_network(run: Path) -> None:
    found = checkpoint.load(run / "best")
    assert isinstance(found.model, Captioner)
    assert found.recipe == "toy_squares"
    assert found.provenance["captions"] == {
        "coverage": recipe().coverage,
        "fine_tuned": 0,
        "self_critical": False,
    }
    assert found.metrics["valid_bleu4"] > 90


def test_figures_come_into_the_checkpoint(run: Path) -> None:
    figures = captioning.evaluate(recipe(), data=Path(), out=run, folder=run / "best", config=SearchConfig(beam_size=2))
    kept = checkpoint.load(run / "best").metrics["figures"]
    assert [figure["metric"] for figure in kept] == [figure.metric for figure in figures]
    assert {figure.metric: figure.value for figure in figures}["bleu4"] > 90


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captioning.train(recipe(epochs=1), data=Path(), out=tmp_path, hardware=HARDWARE)
    captioning.train(recipe(epochs=2), data=Path(), out=tmp_path, hardware=HARDWARE)
    assert "going on after epoch 1" in capsys.readouterr().out
    assert checkpoint.load(tmp_path / "latest").metrics["epoch"] == 2


def test_maps_may_lie_elsewhere(tmp_path: Path) -> None:
    captioning.train(recipe(epochs=1), data=Path(), out=tmp_path / "run", hardware=HARDWARE, cache=tmp_path / "maps")
    assert list((tmp_path / "maps").glob("*.npy"))
    assert not (tmp_path / "run" / "features").exists()


def test_with_blocks_that_are_tuned_pixels_are_read_and_no_maps_kept(tmp_path: Path, run: Path) -> None:
    tuned = recipe(epochs=1, fine_tuned=1)
    captioning.train(tuned, data=Path(), out=tmp_path, hardware=HARDWARE, start_from=run)
    assert not (tmp_path / "features").exists()
    assert checkpoint.load(tmp_path / "latest").provenance["start"]["recipe"] == "toy_squares"


def test_a_run_learns_from_rewards_for_its_own_captions(tmp_path: Path) -> None:
    begun = recipe(epochs=2)
    captioning.train(begun, data=Path(), out=tmp_path / "begun", hardware=HARDWARE)
    rewarded = replace(recipe(epochs=2), self_critical=True, coverage=0.0, batches=replace(begun.batches, captions=4))
    captioning.train(rewarded, data=Path(), out=tmp_path / "rewarded", hardware=HARDWARE, start_from=tmp_path / "begun")
    before, after = (checkpoint.load(tmp_path / name / "best").metrics for name in ("begun", "rewarded"))
    assert after["valid_cider"] > before["valid_cider"]


@pytest.mark.parametrize("name", ["toy_squares_lstm", "toy_squares_transformer"])
def test_the_other_decoders_learn_too(name: str, tmp_path: Path) -> None:
    captioning.train(recipe(name), data=Path(), out=tmp_path, hardware=HARDWARE)
    assert checkpoint.load(tmp_path / "best").metrics["valid_bleu4"] > 80

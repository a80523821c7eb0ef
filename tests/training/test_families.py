"""Families of models: one table lists them, and what it does not list is refused before it has learnt anything."""

# torch types manual_seed only in part.
# pyright: reportUnknownMemberType=false

from dataclasses import replace
from pathlib import Path

import pytest

from regard.training.families import FAMILIES, Family, FamilyError, family_of
from regard.training.learning import checkpoint
from regard.training.learning.fit import Hardware
from regard.training.models.rnn import Rnn, RnnConfig
from regard.training.recipes.toy_models import RUNGS, toy_model
from regard.training.recipes.toys import toy_reverse
from regard.training.runs.translation import train


class Unlisted(Rnn):
    """A model of no family, though it could learn."""


class Mute(Rnn):
    """A model that does not tell its layers and heads of attention."""

    @property
    def attention_axes(self) -> tuple[int, int]:
        raise AttributeError


def config(vocabulary: int, output: int) -> RnnConfig:
    return RnnConfig(vocabulary=vocabulary, output=output, embedding=4, encoder=3, decoder=4, attention=3)


def unlisted(vocabulary: int, output: int) -> Rnn:
    return Unlisted(config(vocabulary, output))


def test_a_model_of_no_family_is_refused_before_the_first_epoch(tmp_path: Path) -> None:
    recipe = replace(toy_reverse(), model=unlisted)
    with pytest.raises(FamilyError, match=r"Unlisted belongs to no family .* training/families.py, which has rnn, "):
        train(recipe, data=Path(), out=tmp_path / "run", hardware=Hardware(accelerator="cpu", threads=1))
    assert not (tmp_path / "run").exists()


def test_a_family_that_lacks_a_member_of_the_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "mute", Family(RnnConfig, Mute))
    with pytest.raises(FamilyError, match="Mute lacks attention_axes: "):
        family_of(Mute(config(12, 9)))


@pytest.mark.parametrize("rung", RUNGS)
def test_a_model_says_which_axes_its_attention_has(rung: str) -> None:
    model = toy_model(rung, 12, 9)  # pyright: ignore[reportArgumentType]  one of RUNGS
    expected = {"no_attention": (0, 0), "fixed": (0, 0), "attention": (1, 1), "lstm": (1, 1), "transformer": (2, 2)}
    assert model.attention_axes == expected[rung]


def test_a_listed_family_is_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "unlisted", Family(RnnConfig, Unlisted))
    train(
        replace(
            toy_reverse(),
            model=unlisted,
            fit=replace(toy_reverse().fit, epochs=1),
            measured_sources=2,
        ),
        data=Path(),
        out=tmp_path,
        hardware=Hardware(accelerator="cpu", threads=1),
    )
    assert isinstance(checkpoint.load(tmp_path / "best").model, Unlisted)

"""Checkpoints: they come back as they were, and anything else is refused."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.training.data.vocabulary import Vocabulary
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint, CheckpointError
from regard.training.models.rnn import Rnn, RnnConfig


@pytest.fixture
def saved(learnt: tuple[Vocabulary, int], tmp_path: Path) -> Path:
    """A folder with a small checkpoint."""
    vocabulary, output = learnt
    torch.manual_seed(7)
    model = Rnn(RnnConfig(vocabulary=vocabulary.size, output=output, embedding=4, encoder=3, decoder=4, attention=3))
    folder = tmp_path / "epoch-01"
    checkpoint.save(
        folder,
        Checkpoint(recipe="some", model=model, vocabulary=vocabulary, metrics={"bleu": 1.5}, provenance={"data": "x"}),
    )
    return folder


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_checkpoint_comes_back(saved: Path, vocabulary: Vocabulary) -> None:
    found = checkpoint.load(saved)
    torch.manual_seed(7)
    assert isinstance(found.model, Rnn)
    expected = Rnn(found.model.config)
    for (name, weight), (_, other) in zip(found.model.named_parameters(), expected.named_parameters(), strict=True):
        assert torch.equal(weight, other), name
    assert not found.model.training
    assert found.vocabulary.digest == vocabulary.digest
    assert (found.recipe, found.metrics, found.provenance) == ("some", {"bleu": 1.5}, {"data": "x"})


def test_heads_that_align_come_back(saved: Path) -> None:
    checkpoint.save(saved, replace(checkpoint.load(saved), alignment_heads=((0, 0),), alignment_lag=1))
    found = checkpoint.load(saved)
    assert (found.alignment_heads, found.alignment_lag) == (((0, 0),), 1)


def test_a_checkpoint_from_before_heads_were_taught_names_none(saved: Path) -> None:
    path = saved / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in config.items() if "alignment" not in name}))
    found = checkpoint.load(saved)
    assert (found.alignment_heads, found.alignment_lag) == ((), 0)


def test_saving_again_replaces_the_whole(saved: Path) -> None:
    (saved / "left-over").touch()
    checkpoint.save(saved, checkpoint.load(saved))
    assert sorted(path.name for path in saved.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert [path.name for path in saved.parent.iterdir()] == ["epoch-01"]


def test_a_pointer_moves_in_one_step(saved: Path) -> None:
    link = saved.parent / "latest"
    for _ in range(2):
        checkpoint.point(link, saved)
        assert checkpoint.load(link).recipe == "some"


def test_a_pickle_is_refused(saved: Path) -> None:
    (saved / "model.safetensors").write_bytes(pickle.dumps({"embedding.weight": [1.0]}))
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        checkpoint.load(saved)


def test_the_vocabulary_of_another_model_is_refused(saved: Path) -> None:
    other, _ = Vocabulary.train(["one two three"] * 3, ["uno dos tres"] * 3, size=60)
    other.save(saved / "tokenizer.json")
    with pytest.raises(CheckpointError, match="is not the one that the model was trained with"):
        checkpoint.load(saved)


def test_a_vocabulary_of_the_wrong_size_is_refused(saved: Path) -> None:
    model = json.loads((saved / "config.json").read_text())["model"]
    edit(saved, model={**model, "vocabulary": model["vocabulary"] + 1})
    with pytest.raises(CheckpointError, match=r"has \d+ entries, but the model has \d+"):
        checkpoint.load(saved)


def test_a_setting_that_came_after_a_checkpoint_has_the_value_of_before(saved: Path) -> None:
    model = json.loads((saved / "config.json").read_text())["model"]
    later = {"context", "cell", "readout"}
    edit(saved, model={name: value for name, value in model.items() if name not in later})
    config = checkpoint.load(saved).model.config
    assert isinstance(config, RnnConfig)
    assert (config.context, config.cell, config.readout) == ("attention", "gru", "mlp")


def test_a_setting_without_which_no_model_can_be_made_is_named(saved: Path) -> None:
    model = json.loads((saved / "config.json").read_text())["model"]
    edit(saved, model={name: value for name, value in model.items() if name != "output"})
    with pytest.raises(CheckpointError, match=r"missing \['output'\]"):
        checkpoint.load(saved)


@pytest.mark.parametrize(("value", "message"), [(0, "decoder is 0"), ("large", "cannot be: ")])
def test_settings_that_cannot_be_are_refused(saved: Path, value: object, message: str) -> None:
    model = json.loads((saved / "config.json").read_text())["model"]
    edit(saved, model={**model, "decoder": value})
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(saved)


def test_weights_of_another_shape_are_refused(saved: Path) -> None:
    model = json.loads((saved / "config.json").read_text())["model"]
    edit(saved, model={**model, "decoder": 5})
    with pytest.raises(CheckpointError, match=r"has shape .* but its settings ask for"):
        checkpoint.load(saved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alignment_heads": [[0, 1]]}, "layer 0, head 1 aligns, but the model has 1 layers and 1 heads"),
        ({"alignment_heads": [[0]]}, "are not pairs of a layer and a head"),
        ({"alignment_heads": 1}, "are not pairs of a layer and a head"),
        ({"alignment_lag": 2}, "alignment_lag of .* is 2, but it is 0 or 1"),
        ({"extra": 1}, r"unknown \['extra'\]"),
        ({"format": 2}, "has format 2"),
        ({"model": {"kind": "oracle"}}, "of kind oracle"),
        ({"model": {"kind": "rnn", "layers": 2}}, r"unknown \['layers'\]"),
        ({"model": None}, "is not a checkpoint's"),
    ],
)
def test_settings_that_are_not_known_are_refused(saved: Path, changes: dict[str, Any], message: str) -> None:
    edit(saved, **changes)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(saved)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        checkpoint.load(saved)


def test_best_checkpoint_is_taken_before_the_latest(tmp_path: Path) -> None:
    for name in ("latest", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").touch()
    assert checkpoint.find(tmp_path) == tmp_path / "best"
    assert checkpoint.find(tmp_path / "latest") == tmp_path / "latest"

"""The mean of checkpoints: what it is made of, what is refused."""

# torch types manual_seed only in part.
# pyright: reportUnknownMemberType=false

from pathlib import Path

import pytest
import torch

from regard.training.data.vocabulary import Vocabulary
from regard.training.learning import checkpoint
from regard.training.learning.average import average, main
from regard.training.learning.warm_start import StartError
from regard.training.models.rnn import Rnn, RnnConfig

TEXTS = ["a dog runs", "a cat sleeps"]


def write(folder: Path, *, seed: int, decoder: int = 6, texts: list[str] = TEXTS) -> checkpoint.Checkpoint:
    vocabulary, output = Vocabulary.train(texts, texts, size=40)
    torch.manual_seed(seed)
    sizes = RnnConfig(vocabulary=vocabulary.size, output=output, embedding=4, encoder=4, decoder=decoder, attention=4)
    made = checkpoint.Checkpoint(
        recipe="toy_copy",
        model=Rnn(sizes),
        vocabulary=vocabulary,
        metrics={"epoch": seed, "valid_bleu": 1.0},
        provenance={},
    )
    checkpoint.save(folder, made)
    return made


def test_every_weight_is_the_mean(tmp_path: Path) -> None:
    parts = [dict(write(tmp_path / str(seed), seed=seed).model.named_parameters()) for seed in (1, 2, 3)]
    found = average([tmp_path / "1", tmp_path / "2", tmp_path / "3"])
    for name, parameter in found.model.named_parameters():
        torch.testing.assert_close(parameter, torch.stack([part[name] for part in parts]).mean(dim=0))


def test_the_command_writes_a_checkpoint_that_says_what_it_is_made_of(tmp_path: Path) -> None:
    for seed in (1, 2):
        write(tmp_path / str(seed), seed=seed)
    assert main([str(tmp_path / "mean"), str(tmp_path / "1"), str(tmp_path / "2")]) == 0
    found = checkpoint.load(tmp_path / "mean" / "best")
    assert found.metrics == {}
    assert [part["epoch"] for part in found.provenance["average"]] == [1, 2]
    with pytest.raises(SystemExit):
        main([str(tmp_path / "mean"), str(tmp_path / "1")])
    with pytest.raises(StartError, match="take the parts"):
        average([tmp_path / "1", tmp_path / "mean"])


def test_other_sizes_and_vocabularies_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "1", seed=1)
    write(tmp_path / "wide", seed=1, decoder=8)
    write(tmp_path / "words", seed=1, texts=["a cog runs", "a rat sleeps"])
    with pytest.raises(StartError, match="decoder 6 and not 8"):
        average([tmp_path / "1", tmp_path / "wide"])
    with pytest.raises(StartError, match="another vocabulary"):
        average([tmp_path / "1", tmp_path / "words"])
    assert main([str(tmp_path / "mean"), str(tmp_path / "1"), str(tmp_path / "none")]) == 1
    assert "none holds no checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "mean").exists()

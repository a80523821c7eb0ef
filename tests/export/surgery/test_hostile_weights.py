"""What is given as weights is read as numbers or refused; nothing in it is run (M07)."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from tests.export.toy import quiet

from regard.contract.bundle import load_bundle
from regard.contract.errors import BundleError as InvalidBundle
from regard.export.__main__ import main as export_command
from regard.export.bundle.writer import Bundle, write_bundle
from regard.export.errors import BundleError
from regard.export.families.null import null_bundle
from regard.export.verify import verify
from regard.server.errors import BundleError as ServerRefusal
from regard.server.runtime.session import open_model
from regard.training.data.vocabulary import Vocabulary
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint, CheckpointError
from regard.training.models.rnn import Rnn, RnnConfig


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What is there if a payload was run."""
    return tmp_path / "marker"


@pytest.fixture
def payload(marker: Path) -> bytes:
    """A pickle that leaves the marker."""
    return pickle.dumps(Payload(marker))


@pytest.fixture
def run(payload: bytes, tmp_path: Path) -> Path:
    """A checkpoint whose weights are the payload."""
    vocabulary, output = Vocabulary.train(["ala bee"], ["bee ala"], size=20)
    model = Rnn(RnnConfig(vocabulary=vocabulary.size, output=output, embedding=4, encoder=2, decoder=4, attention=4))
    made = Checkpoint(recipe="toy_reverse", model=model, vocabulary=vocabulary, metrics={}, provenance={})
    checkpoint.save(tmp_path / "run", made)
    (tmp_path / "run" / "model.safetensors").write_bytes(payload)
    return tmp_path / "run"


def test_payload_would_be_run_by_a_careless_reader(payload: bytes, marker: Path) -> None:
    pickle.loads(payload)  # the very danger that the other tests are about
    assert marker.is_dir()


def test_checkpoint_is_refused_without_running_it(run: Path, marker: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.safetensors .* is not a safetensors file"):
        checkpoint.load(run)
    assert not marker.exists()


def test_export_refuses_it_without_running_it(
    run: Path, marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export_command([str(run), str(tmp_path / "models" / "toy" / "1")]) == 1
    assert "model.safetensors" in capsys.readouterr().err
    assert not marker.exists()
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("name", ["encode.onnx", "step.onnx", "tokenizer.json"])
def test_bundle_that_vouches_for_it_is_refused_without_running_it(
    name: str, payload: bytes, marker: Path, tmp_path: Path
) -> None:
    null = null_bundle()
    target = tmp_path / "null" / "1"
    write_bundle(target, Bundle(null.manifest, {**null.files, name: payload}), check=False)
    with pytest.raises(BundleError, match=name):
        verify(target, quiet)
    with pytest.raises((InvalidBundle, ServerRefusal), match=name):
        open_model(load_bundle(target), device="cpu", intra_op_threads=1)
    assert not marker.exists()


def test_archive_of_torch_is_refused_without_running_it(run: Path, marker: Path) -> None:
    torch.save({"state_dict": Payload(marker)}, run / "model.safetensors")
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        checkpoint.load(run)
    assert not marker.exists()

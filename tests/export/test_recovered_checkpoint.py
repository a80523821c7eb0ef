"""A checkpoint that was recovered from a bundle is the model that the bundle serves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.bundles import ROOT

from regard.contract.bundle import load_bundle
from regard.export.errors import BundleError
from regard.export.families.transformer_profiles import rounded_for_storage
from regard.export.parity.greedy import first_state, step_inputs
from regard.export.parity.runtime import OnnxMachine
from regard.export.recover import halved, main, recover
from regard.training.learning.checkpoint import Checkpoint, load, save
from regard.training.models.transformer import Transformer

MODELS = ROOT / "models"
BUNDLE = MODELS / "en-xx" / "1"
TEXT = "The train leaves in an hour."
STEPS = 6
Scores: TypeAlias = NDArray[np.float32]


@pytest.fixture(scope="module")
def recovered() -> Checkpoint:
    """Recover the embedded translator once for all tests; they must not change it."""
    return recover(BUNDLE)


def served_scores(ids: list[int]) -> tuple[list[int], Scores]:
    """Return the greedy tokens of the bundle's graphs and their log-probabilities [step, vocabulary]."""
    bundle = load_bundle(BUNDLE, profile="portable")
    machine = OnnxMachine(bundle.encode.path.read_bytes(), bundle.step.path.read_bytes())
    memory = machine.encode({"source": np.array([ids]), "source_length": np.array([len(ids)])})
    state = first_state(bundle.ports.step, memory, 1, STEPS)
    token = bundle.bos_id
    tokens: list[int] = []
    scores: list[Scores] = []
    for _ in range(STEPS):
        outputs = machine.step(step_inputs(bundle.ports.step, np.array([token]), state, memory, scores=0))
        state = outputs
        scores.append(np.asarray(outputs["scores"][0], np.float32))
        token = int(scores[-1].argmax())
        tokens.append(token)
    return tokens, np.stack(scores)


def model_scores(checkpoint: Checkpoint, ids: list[int], tokens: list[int]) -> Scores:
    """Return the model's log-probabilities [step, vocabulary] when it is led through tokens."""
    model = checkpoint.model
    assert isinstance(model, Transformer)
    with torch.inference_mode():
        fed = torch.tensor([[2, *tokens[:-1]]])
        features, _ = model(torch.tensor([ids]), torch.tensor([len(ids)]), fed)
        return torch.log_softmax(model.output(features[0]), dim=1).numpy()


def source(checkpoint: Checkpoint) -> list[int]:
    """Return the ids of a sentence that is to become Spanish."""
    vocabulary = checkpoint.vocabulary
    return [*vocabulary.encode(TEXT)[:-1], vocabulary.end("es")]


def test_the_recovered_model_gives_the_log_probabilities_of_the_portable_graphs(recovered: Checkpoint) -> None:
    ids = source(recovered)
    tokens, expected = served_scores(ids)
    # Graphs keep even the sinusoids of positions as float16, which a model computes anew.
    model = recovered.model
    assert isinstance(model, Transformer)
    stored = replace(recovered, model=rounded_for_storage(model))
    np.testing.assert_allclose(model_scores(stored, ids, tokens), expected, atol=1e-4)
    np.testing.assert_allclose(model_scores(recovered, ids, tokens), expected, atol=1e-3)


def test_what_is_stored_as_float16_decides_alike(recovered: Checkpoint, tmp_path: Path) -> None:
    save(tmp_path / "half", halved(recovered))
    ids = source(recovered)
    tokens, expected = served_scores(ids)
    found = model_scores(load(tmp_path / "half"), ids, tokens)
    assert found.argmax(1).tolist() == tokens
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_the_recovered_checkpoint_knows_its_runs_and_its_aligned_head(recovered: Checkpoint) -> None:
    assert recovered.recipe == "en_xx_aligned"
    assert recovered.provenance["start"]["recipe"] == "en_xx_transformer"
    assert (recovered.alignment_heads, recovered.alignment_lag) == (((0, 0),), 1)


def test_a_bundle_of_another_family_is_refused() -> None:
    with pytest.raises(BundleError, match="Transformer"):
        recover(MODELS / "en-es-rnn" / "1")


def test_a_folder_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(BUNDLE), str(tmp_path)]) == 1
    assert "there already" in capsys.readouterr().err

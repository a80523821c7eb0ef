"""What comes with the project keeps the promise that an answer does not depend on its company, in every profile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.server.engine_fakes import request
from tests.server.engine_running import running, submit

from regard.contract.bundle import load_bundle
from regard.contract.tasks import Task
from regard.server.front.loading import find_models
from regard.server.request import DecodeRequest, Hypothesis
from regard.server.runtime.session import open_model
from regard.server.settings import EMBEDDED_DEFAULT, EMBEDDED_MODELS, ServerSettings
from regard.server.text.tokenization import TextPipeline

TEXTS = ("The cat eats the mouse.", "We are eating bread.", "I don't know why he didn't come yesterday.", "Yes!")


def _profiles() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for path in sorted(EMBEDDED_MODELS.glob("*/*/bundle.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["task"] == "TASK_TRANSLATION":
            found += [(path.parent, profile["name"]) for profile in manifest["profiles"]]
    return found


PROFILES = _profiles()


@pytest.mark.parametrize(
    ("folder", "profile"), PROFILES, ids=[f"{folder.parent.name}-{profile}" for folder, profile in PROFILES]
)
def test_an_embedded_model_answers_in_company_as_it_does_alone(folder: Path, profile: str) -> None:
    bundle = load_bundle(folder, profile=profile)
    assert bundle.task is Task.TRANSLATION
    pipeline = TextPipeline(bundle)
    asked: list[DecodeRequest] = []
    for number, text in enumerate(TEXTS):
        for end in (*bundle.target_end_ids.values(), None)[:3]:
            (segment,) = pipeline.prepare(text, split=False, end_id=end)
            asked.append(request(segment.ids.tolist(), beam_size=1 + 2 * (number % 2), max_length=256))
    with running(open_model(bundle, device="cpu", intra_op_threads=1), rows=32) as engine:
        together = submit(engine, *asked).results()
        alone = [submit(engine, one).results()[0] for one in asked]
    for one, other in zip(together, alone, strict=True):
        _same(one.hypotheses[0], other.hypotheses[0])


def _same(one: Hypothesis, other: Hypothesis) -> None:
    assert one.tokens.tolist() == other.tokens.tolist()
    assert one.score == pytest.approx(other.score, abs=1e-4)
    np.testing.assert_allclose(one.alignment, other.alignment, atol=1e-4)


def test_the_better_translator_is_the_default_however_the_folder_is_written_and_whatever_captions() -> None:
    detour = EMBEDDED_MODELS / ".." / EMBEDDED_MODELS.name
    for settings in (ServerSettings(models=(detour,)), ServerSettings(default_model="captions")):
        registry = find_models(settings)
        assert registry.resolve("", "", Task.TRANSLATION).key.name == EMBEDDED_DEFAULT
        assert registry.resolve("", "", Task.CAPTIONING).key.name == "captions"

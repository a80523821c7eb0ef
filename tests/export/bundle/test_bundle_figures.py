"""Measured figures enter manifest and card by one command, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.export.toy import quiet

from regard.export.bundle.figures import main
from regard.export.bundle.writer import read_bundle, write_bundle
from regard.export.families.null import null_bundle
from regard.export.verify import verify

QUALITY = {
    "metric": "bleu",
    "value": 43.25,
    "test_set": "Tatoeba en-es test",
    "search": "beam 5",
    "signature": "nrefs:1|case:mixed",
}
SPEED = {"what": "target tokens per second, 32 rows, 1 thread", "value": 9000, "machine": "x", "date": "2026-01-01"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle on disk."""
    write_bundle(tmp_path / "null" / "1", null_bundle())
    return tmp_path / "null" / "1"


def apply(folder: Path, figures: Any) -> int:
    path = folder.parents[1] / "figures.json"
    path.write_text(json.dumps(figures), encoding="utf-8")
    return main([str(folder), str(path)])


def test_figures_enter_manifest_and_card_and_files_stay(folder: Path) -> None:
    before = read_bundle(folder)
    figures = {
        "default_profile": "portable",
        "default_profile_reason": "it is as fast and exact",
        "profiles": {"cpu": {"quality": [QUALITY], "speed": [SPEED]}},
    }
    assert apply(folder, figures) == 0
    after = read_bundle(folder)
    assert after.files == before.files
    assert after.manifest.default_profile == "portable"
    assert after.manifest.profiles[1].quality[0].value == 43.25
    card = (folder / "README.md").read_text(encoding="utf-8")
    # The signature's bar would end the cell of the table.
    assert r"| `cpu` | bleu | 43.25 | Tatoeba en-es test | beam 5 | `nrefs:1\|case:mixed` |" in card
    assert "it is as fast and exact." in card
    verify(folder, quiet)


def test_figures_given_again_replace_the_old_ones_of_their_kind(folder: Path) -> None:
    assert apply(folder, {"profiles": {"cpu": {"quality": [QUALITY], "speed": [SPEED]}}}) == 0
    assert apply(folder, {"profiles": {"cpu": {"quality": [QUALITY | {"value": 44.0}]}}}) == 0
    profile = read_bundle(folder).manifest.profiles[1]
    assert [figure.value for figure in profile.quality] == [44.0]
    assert len(profile.speed) == 1


@pytest.mark.parametrize(
    ("figures", "word"),
    [
        ({"profiles": {"cuda": {"quality": []}}}, "'cuda'"),
        ({"profiles": {"cpu": {"quality": [{"metrik": "bleu"}]}}}, "metrik"),
        ({"profiles": {"cpu": {"quality": [{"value": "high"}]}}}, "value"),
        ({"profiles": {"cpu": {"parity": {}}}}, "parity"),
        ({"default_profile": "fast"}, "'fast'"),
        ({"name": "other"}, "default_profile_reason"),
        ([1], "JSON object"),
    ],
)
def test_figures_that_mean_nothing_are_refused_and_nothing_changes(
    figures: Any, word: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "bundle.json").read_bytes()
    assert apply(folder, figures) == 1
    assert word in capsys.readouterr().err
    assert (folder / "bundle.json").read_bytes() == before

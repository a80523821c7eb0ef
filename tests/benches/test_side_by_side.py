"""The benches run on toy sizes: both sides of a comparison do the same work, and every figure is there."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from regard.benches import captions, pictures, recurrent
from regard.benches.rebuilt_model import rebuild
from regard.contract.bundle import load_bundle
from regard.loadtest.commands import main as bench
from regard.loadtest.load.corpus import read_sentences
from regard.server.engine.engine import Engine, EngineSettings
from regard.server.runtime.session import open_model
from regard.training.models.captioner import Captioner, CaptionerConfig

RECURRENT = recurrent.ROOT / "models/en-es-rnn/1"


def test_the_rebuilt_model_decodes_as_many_tokens_as_the_engine() -> None:
    loaded = load_bundle(RECURRENT, profile="portable")
    opened = open_model(loaded, device="cpu", intra_op_threads=1)
    engine = Engine({loaded.key: opened}, EngineSettings(workers=1, rows=16, queue_limit=100), recurrent.NoObserver())
    work = recurrent.requests(RECURRENT, read_sentences()[:6], keep_attention=True)
    engine.start()
    found = recurrent.decode(engine, loaded.key, work)
    engine.stop(5.0)
    tokens = sum(len(result.hypotheses[0].tokens) + 1 for result in found)
    assert recurrent.torch_greedy(rebuild(RECURRENT), [work]) == tokens


def test_make_bench_measures_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert recurrent.main(["--rounds", "1", "--sentences", "4", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {"cpu", "portable", "server"} <= set(figures)
    assert all(value > 0 for part in ("cpu", "portable", "server") for value in figures[part].values())


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # torch's exporter, about torch itself
def test_a_captioner_is_measured_against_its_backbone_and_against_torch() -> None:
    """The embedded bundle beside untrained weights: lengths are given, so that weights do not matter."""
    (folder,) = (recurrent.ROOT / "models/captions").iterdir()
    ours = open_model(load_bundle(folder), device="cpu", intra_op_threads=1)
    small = CaptionerConfig(vocabulary=100, output=100, attention=16, hidden=16, embedding=16, values=16)
    model = Captioner(small).eval()
    work = captions.pictures(model.backbone.config)[:2]
    for found in (
        captions.encode_against_backbone(model, ours, work, rounds=3),
        captions.engine_against_torch(model, ours, work, rounds=3),
    ):
        assert found["ratio_lower_quartile"] <= found["ratio_median"] <= found["ratio_upper_quartile"]
        assert all(math.isfinite(value) and value > 0 for value in found.values())


def test_callers_with_large_pictures_are_all_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert pictures.main(["--calls", "3", "--width", "400", "--height", "300"]) == 0
    assert "3 callers, 400 x 300 baseline JPEG" in capsys.readouterr().out


def test_bench_engine_names_all_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--checkpoint", str(tmp_path / "run"), "--ctranslate2-python", str(tmp_path / "python")]
    assert bench(["engine", *options, "--bundle", str(tmp_path / "bundle")]) == 1
    err = capsys.readouterr().err
    assert "make ctranslate2" in err
    assert "run has no model.safetensors" in err
    assert "bundle is no folder" in err


def test_bench_engine_without_weights_asks_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(["engine"]) == 2
    assert "name the weights by --checkpoint" in capsys.readouterr().err

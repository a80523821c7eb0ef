"""The command refuses what cannot become a bundle, before work where it can, and writes nothing then."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import onnx
import pytest
import torch
from onnx import ModelProto
from tests.export.toy import ToyBundle, ToyRun, quiet

from regard.export import build as build_module
from regard.export.__main__ import main
from regard.export.build import BuildSettings, build
from regard.export.errors import BundleError, ParityError
from regard.export.families import generic
from regard.export.families.graphs import StepGraph
from regard.training.learning import checkpoint


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for word in ("portable", "cpu", "NAME/VERSION", "--data", "--replace", "exit code", "regard verify"):
        assert word in text


def test_run_without_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path / "toy" / "1")]) == 1
    assert "holds no checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "toy").exists()


def test_existing_bundle_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "toy" / "1").mkdir(parents=True)
    assert main([str(tmp_path / "no-run"), str(tmp_path / "toy" / "1")]) == 1
    assert "--replace" in capsys.readouterr().err


def test_damaged_checkpoint_is_refused(toy_run: ToyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(toy_run.folder, tmp_path / "run")
    (tmp_path / "run" / "best" / "model.safetensors").write_bytes(b"not weights")
    assert main([str(tmp_path / "run"), str(tmp_path / "toy" / "1")]) == 1
    assert "model.safetensors" in capsys.readouterr().err
    assert not (tmp_path / "toy").exists()


def test_data_are_asked_for_where_a_recipe_needs_them(toy_run: ToyRun, tmp_path: Path) -> None:
    made = dataclasses.replace(toy_run.checkpoint, recipe="en_es_rnn")
    checkpoint.save(tmp_path / "best", made)
    with pytest.raises(BundleError, match="--data or REGARD_DATA"):
        build(tmp_path, BuildSettings(), quiet)


def test_weights_with_nan_are_refused_by_name(toy_run: ToyRun, tmp_path: Path) -> None:
    shutil.copytree(toy_run.folder, tmp_path / "run")
    spoiled = checkpoint.load(tmp_path / "run" / "best")
    with torch.no_grad():
        dict(spoiled.model.named_parameters())["bridge.bias"][3] = torch.nan
    checkpoint.save(tmp_path / "run" / "best", spoiled)
    with pytest.raises(Exception, match=r"bridge\.bias"):
        build(tmp_path / "run", BuildSettings(), quiet)


@pytest.fixture
def traced(toy_bundle: ToyBundle, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModelProto]:
    """Spare the tracing: the graphs of the toy bundle, which a test may change before they are used."""
    graphs = {
        name: onnx.load_model_from_string(toy_bundle.bundle.files[f"{name}.portable.onnx"])
        for name in ("encode", "step")
    }

    def trace(module: object, *_: object) -> ModelProto:
        return graphs["step" if isinstance(module, StepGraph) else "encode"]

    monkeypatch.setattr(generic, "trace", trace)
    return graphs


def test_graph_that_differs_from_its_model_is_refused_and_nothing_is_written(
    toy_run: ToyRun, traced: dict[str, ModelProto], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (attend,) = [node for node in traced["step"].graph.node if node.op_type == "Softmax"]
    attend.attribute[0].i = 0  # over the batch and not over the source
    assert main([str(toy_run.folder), str(tmp_path / "toy" / "1")]) == 1
    assert "differs by" in capsys.readouterr().err
    assert not (tmp_path / "toy").exists()


def test_int8_that_decides_otherwise_too_often_is_refused(toy_run: ToyRun, traced: dict[str, ModelProto]) -> None:
    assert traced
    with pytest.raises(ParityError, match="decides as the model does only in"):
        build_module.build(toy_run.folder, BuildSettings(least_agreement=1.01), quiet)


def test_manifest_says_where_the_bundle_comes_from(toy_bundle: ToyBundle) -> None:
    manifest = toy_bundle.manifest
    assert manifest.provenance.recipe == "toy_reverse"
    assert len(manifest.provenance.checkpoint_sha256) == 64
    assert manifest.provenance.versions["onnxruntime"]
    assert (manifest.name, manifest.version, manifest.default_profile) == ("toy-reverse", "1", "cpu")
    assert [(head.layer, head.head) for head in manifest.attention.alignment_heads] == [(0, 0)]
    assert "read" in toy_bundle.said[0]

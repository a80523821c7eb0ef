"""Verification looks inside: a bundle whose digests are right may still be put together wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from tests.export.toy import quiet

from regard.export.bundle.writer import Bundle, write_bundle
from regard.export.errors import BundleError, ExportError, GraphError, ParityError
from regard.export.families.null import null_bundle
from regard.export.verify import verify
from regard.v1 import bundle_pb2


def altered(
    tmp_path: Path,
    *,
    manifest: Callable[[bundle_pb2.Bundle], object] = lambda _: None,
    graph: Callable[[ModelProto], object] = lambda _: None,
    files: dict[str, bytes] | None = None,
) -> Path:
    """Write the null bundle with a changed manifest, step graph or file, and digests that fit the change."""
    bundle = null_bundle()
    manifest(bundle.manifest)
    step = onnx.load_model_from_string(bundle.files["step.onnx"])
    graph(step)
    target = tmp_path / "null" / "1"
    changed = {**bundle.files, "step.onnx": step.SerializeToString(), **(files or {})}
    write_bundle(target, Bundle(bundle.manifest, changed), check=False)
    return target


def refused(target: Path, error: type[ExportError], match: str) -> None:
    with pytest.raises(error, match=match):
        verify(target, quiet)


def test_unaltered_bundle_holds(tmp_path: Path) -> None:
    said: list[str] = []
    verify(altered(tmp_path), said.append)
    assert any("portable and cpu" in line for line in said)


def test_tokenizer_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    tokenizer = json.loads(null_bundle().files["tokenizer.json"])
    tokenizer["model"]["vocab"]["one-more"] = 64
    files = {"tokenizer.json": json.dumps(tokenizer).encode()}
    refused(altered(tmp_path, files=files), BundleError, "65 entries, expected vocabulary_size 64")


def test_tokenizer_with_special_tokens_elsewhere_is_refused(tmp_path: Path) -> None:
    tokenizer = json.loads(null_bundle().files["tokenizer.json"])
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["<s>"], vocabulary["<unk>"] = vocabulary["<unk>"], vocabulary["<s>"]
    files = {"tokenizer.json": json.dumps(tokenizer).encode()}
    refused(altered(tmp_path, files=files), BundleError, "has id 2 for <unk>")


def test_tokenizer_that_does_not_end_sentences_is_refused(tmp_path: Path) -> None:
    tokenizer = json.loads(null_bundle().files["tokenizer.json"])
    tokenizer["post_processor"] = None
    files = {"tokenizer.json": json.dumps(tokenizer).encode()}
    refused(altered(tmp_path, files=files), BundleError, "does not end a text with </s>")


def test_tokenizer_through_which_text_could_end_itself_is_refused(tmp_path: Path) -> None:
    tokenizer = json.loads(null_bundle().files["tokenizer.json"])
    tokenizer["added_tokens"] = [
        {"id": 3, "content": "</s>", "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    ]
    files = {"tokenizer.json": json.dumps(tokenizer).encode()}
    refused(altered(tmp_path, files=files), BundleError, "could spell </s>")


def test_renamed_port_is_refused(tmp_path: Path) -> None:
    def rename(step: ModelProto) -> None:
        step.graph.output[0].name = "logits"
        step.graph.node.append(helper.make_node("Identity", ["scores"], ["logits"]))

    refused(altered(tmp_path, graph=rename), GraphError, "should have the output")


def test_opset_other_than_recorded_is_refused(tmp_path: Path) -> None:
    def lower(step: ModelProto) -> None:
        step.opset_import[0].version = 19

    refused(altered(tmp_path, graph=lower), BundleError, "opset 19 and IR 10, but the manifest says 20 and 10")


def test_opset_newer_than_the_runtime_is_refused(tmp_path: Path) -> None:
    def raise_opset(step: ModelProto) -> None:
        step.opset_import[0].version = 99

    def record(manifest: bundle_pb2.Bundle) -> None:
        for profile in manifest.profiles:
            profile.step.opset = 99

    refused(altered(tmp_path, graph=raise_opset, manifest=record), GraphError, "not valid ONNX|cannot open")


def test_profiles_that_disagree_are_refused(tmp_path: Path) -> None:
    bundle = null_bundle()
    step = onnx.load_model_from_string(bundle.files["step.onnx"])
    for tensor in step.graph.initializer:
        if tensor.name == "constant_scores":
            values = onnx.numpy_helper.to_array(tensor) - 1
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))

    def use_other(manifest: bundle_pb2.Bundle) -> None:
        manifest.profiles[1].step.file = "step.other.onnx"

    files = {"step.other.onnx": step.SerializeToString()}
    refused(altered(tmp_path, manifest=use_other, files=files), ParityError, "scores differs")


def test_unknown_default_profile_is_refused(tmp_path: Path) -> None:
    def other(manifest: bundle_pb2.Bundle) -> None:
        manifest.default_profile = "cuda"

    refused(altered(tmp_path, manifest=other), BundleError, "'cuda', but the profiles are portable, cpu")


def test_graph_that_is_not_vouched_for_is_refused(tmp_path: Path) -> None:
    def other(manifest: bundle_pb2.Bundle) -> None:
        manifest.profiles[0].step.file = "step.cuda.onnx"

    refused(altered(tmp_path, manifest=other), BundleError, "'step.cuda.onnx', which is not among")


def test_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    refused(altered(tmp_path, files={"step.onnx": b"\xff\xff not a graph"}), BundleError, "is not an ONNX graph")


def test_int8_operators_outside_an_int8_profile_are_refused(tmp_path: Path) -> None:
    def add_contrib(step: ModelProto) -> None:
        step.graph.node.add(op_type="Gelu", domain="com.microsoft", input=["weights"], output=["unused"])
        step.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        assert TensorProto.FLOAT == 1

    refused(altered(tmp_path, graph=add_contrib), GraphError, r"com\.microsoft")


def test_verification_needs_neither_torch_nor_onnx(tmp_path: Path) -> None:
    target = altered(tmp_path)
    done = without_export(f"from regard.cli.main import main; sys.exit(main(['verify', {str(target)!r}]))")
    assert done.returncode == 0, done.stderr
    assert "opset, operators and where weights lie are not checked" in done.stdout
    assert "profiles portable and cpu" in done.stdout


def test_a_graph_with_other_ports_is_refused_without_onnx_too(tmp_path: Path) -> None:
    def rename(step: ModelProto) -> None:
        step.graph.output[0].name = "logits"
        step.graph.node.append(helper.make_node("Identity", ["scores"], ["logits"]))

    target = altered(tmp_path, graph=rename)
    done = without_export(f"from regard.cli.main import main; sys.exit(main(['verify', {str(target)!r}]))")
    assert done.returncode == 1
    assert "step.onnx: outputs are" in done.stderr
    assert "logits" in done.stderr


def test_help_is_shown_where_the_exporter_is_not_installed() -> None:
    done = without_export("from regard.cli.main import main; sys.exit(main(['verify', '--help']))")
    assert done.returncode == 0, done.stderr
    assert "Verify a bundle" in done.stdout


def without_export(statement: str) -> subprocess.CompletedProcess[str]:
    """Run a statement where what the exporter needs, and serving does not, cannot be imported."""
    hidden = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'torch', 'onnx', 'onnxscript', 'lightning'}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    return subprocess.run([sys.executable, "-c", hidden + statement], capture_output=True, text=True, check=False)

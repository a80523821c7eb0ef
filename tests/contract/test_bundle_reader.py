"""What a bundle must be to be served, and what is said of one that is not."""

import hashlib
import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.changed_bundles import (
    NULL,
    Change,
    Manifest,
    copy_of_null,
    list_again,
    port,
    refusal,
    rewrite,
    speak,
    step,
)

from regard.contract.bundle import LoadedBundle, load_bundle
from regard.contract.names import ModelKey


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return copy_of_null(tmp_path)


def test_a_whole_bundle_is_read(bundle: Path) -> None:
    loaded = load_bundle(bundle)

    assert loaded.key == ModelKey("null", "1")
    assert loaded.profile == loaded.manifest.default_profile == "cpu"
    assert (loaded.pad_id, loaded.unknown_id, loaded.bos_id, loaded.eos_id) == (0, 1, 2, 3)
    assert loaded.ports.vocabulary == loaded.ports.predictable == 64
    assert (loaded.max_source_tokens, loaded.max_target_tokens) == (256, 256)
    assert (loaded.ports.layers, loaded.ports.heads, loaded.alignment_heads) == (1, 1, ((0, 0),))
    assert [entry.name for entry in loaded.encode.inputs] == ["source", "source_length"]
    scores = next(entry for entry in loaded.step.outputs if entry.role == "scores")
    assert (scores.dtype, scores.axes) == (np.dtype("float32"), ("batch", 64))
    assert loaded.step.path == bundle / "step.onnx"


def test_the_digest_is_that_of_the_manifest(bundle: Path) -> None:
    assert load_bundle(bundle).digest == hashlib.sha256((bundle / "bundle.json").read_bytes()).hexdigest()


def test_a_loaded_bundle_cannot_be_changed(bundle: Path) -> None:
    loaded: Any = load_bundle(bundle)
    with pytest.raises(FrozenInstanceError):
        loaded.profile = "other"


def test_a_bundle_is_read_from_any_working_directory(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle.parent)
    assert load_bundle(Path("bundle")).key.name == "null"


def test_a_profile_is_chosen_by_name(bundle: Path) -> None:
    assert load_bundle(bundle, profile="portable").profile == "portable"


def test_an_unknown_profile_is_refused_with_those_there_are(bundle: Path) -> None:
    assert "'cuda'; the profiles are portable, cpu" in refusal(bundle, profile="cuda")


def test_a_model_without_attention_is_read(bundle: Path) -> None:
    def change(manifest: Manifest) -> None:
        manifest["attention"] = {}
        for profile in manifest["profiles"]:
            outputs = profile["step"]["outputs"]
            outputs[:] = [entry for entry in outputs if entry["role"] != "PORT_ROLE_ATTENTION"]
            compared = profile["parity"]["ports"]
            compared[:] = [entry for entry in compared if entry["port"] != "attention"]

    rewrite(bundle, change)
    loaded = load_bundle(bundle)
    assert (loaded.ports.layers, loaded.ports.heads, loaded.alignment_heads) == (0, 0, ())


def test_scores_may_be_narrower_than_the_vocabulary(bundle: Path) -> None:
    def change(manifest: Manifest) -> None:
        for profile in manifest["profiles"]:
            next(entry for entry in profile["step"]["outputs"] if entry["name"] == "scores")["axes"][1] = "40"

    rewrite(bundle, change)
    loaded = load_bundle(bundle)
    assert (loaded.ports.vocabulary, loaded.ports.predictable) == (64, 40)


def test_several_target_languages_have_an_id_each_in_their_order(bundle: Path) -> None:
    assert load_bundle(bundle).target_end_ids == {}
    rewrite(bundle, lambda m: speak(m, ["fr", "de"], de=62, fr=63))
    assert list(load_bundle(bundle).target_end_ids.items()) == [("fr", 63), ("de", 62)]


def grow(manifest: Manifest, *, encoded: bool = False, **changes: Any) -> None:
    """Give the step of every profile a buffer, which encoding may make."""
    for profile in manifest["profiles"]:
        buffer = {"name": "state.keys", "role": "PORT_ROLE_STATE", "dtype": "float32", "axes": ["batch", "target", "4"]}
        profile["step"]["inputs"].append(buffer)
        profile["step"]["outputs"].append({**buffer, "name": "next.state.keys"})
        profile["parity"]["ports"].append({"port": "next.state.keys", "worstAbsolute": 0.0})
        if encoded:
            profile["encode"]["outputs"].append(dict(buffer))
            profile["parity"]["ports"].append({"port": "state.keys", "worstAbsolute": 0.0})
        profile.update(changes)


@pytest.mark.parametrize("encoded", [False, True])
def test_state_with_an_axis_target_need_not_come_from_encoding(bundle: Path, encoded: bool) -> None:
    rewrite(bundle, lambda m: grow(m, encoded=encoded))
    loaded = load_bundle(bundle)
    assert [port.name for port in loaded.step.inputs if "target" in port.axes] == ["state.keys"]
    assert not loaded.state_in_place


def test_whether_state_is_written_in_place_is_said_by_each_profile(bundle: Path) -> None:
    rewrite(bundle, lambda m: (grow(m), m["profiles"][1].update(stateInPlace=True)))
    found = {name: load_bundle(bundle, profile=name).state_in_place for name in ("portable", "cpu")}
    assert found == {"portable": False, "cpu": True}


WRONG_FIELDS: list[tuple[Change, str]] = [
    (lambda m: m.pop("formatVersion"), "format_version is 0, expected 1"),
    (lambda m: m.update(formatVersion=2), "format_version is 2, expected 1"),
    (lambda m: m.update(colour="red"), "colour"),
    (lambda m: m.pop("name"), "name is ''"),
    (lambda m: m.update(name="../null"), "name is '../null'"),
    (lambda m: m.update(version="007"), "version is '007', expected a positive integer"),
    (lambda m: m.update(version="0"), "version is '0'"),
    (lambda m: m.pop("task"), "task is 0"),
    (lambda m: m.update(sourceLanguages=["english, mostly"]), "source_languages holds 'english, mostly'"),
    (lambda m: m.pop("limits"), "limits.max_source_tokens is 0, expected 2 to 65535"),
    (lambda m: m["limits"].update(maxSourceTokens=70000), "max_source_tokens is 70000"),
    (lambda m: m["limits"].pop("maxTargetTokens"), "max_target_tokens is 0"),
    (lambda m: m.pop("tokenizer"), "tokenizer.file is missing"),
    (lambda m: m["tokenizer"].update(file="other.json"), "'other.json', which is not among the files"),
    (lambda m: m["tokenizer"].update(vocabularySize=63), "has 64 entries, expected vocabulary_size 63"),
    (lambda m: m["attention"].update(alignmentLag=2), "attention.alignment_lag is 2, expected 0 or 1"),
    (lambda m: m["tokenizer"].pop("endId"), "the id of </s> is 0, expected 3"),
    (lambda m: m["tokenizer"].update(beginId=3, endId=2), "the id of <s> is 3, expected 2"),
    (lambda m: speak(m, ["fr", "de"], fr=62), "target_end_ids has fr, but target_languages are fr, de"),
    (lambda m: speak(m, [], fr=62), "target_end_ids has fr, but target_languages are none"),
    (lambda m: speak(m, ["fr"], fr=59), "gives fr the id 59, expected 60 to 63"),
    (lambda m: speak(m, ["fr"], fr=64), "gives fr the id 64, expected 60 to 63"),
    (lambda m: speak(m, ["fr", "de"], fr=63, de=63), "gives two languages one id"),
    (lambda m: m.pop("profiles"), "default_profile is 'cpu', but the profiles are none"),
    (lambda m: m.pop("defaultProfile"), "default_profile is ''"),
    (lambda m: m["profiles"][0].update(name="cpu"), "profile 'cpu' is there twice"),
    (lambda m: m["profiles"][0].pop("name"), "profiles[0].name is missing"),
    (lambda m: m["profiles"][0].pop("precision"), "'portable': precision is missing"),
    (lambda m: m["profiles"][0].pop("step"), "'portable': step.file is missing"),
    (lambda m: m["profiles"][0]["encode"].update(file="../encode.onnx"), "'../encode.onnx', which is not among"),
    (lambda m: m["profiles"][0]["encode"].pop("opset"), "encode: opset is missing"),
    (lambda m: m["profiles"][0]["step"].pop("irVersion"), "step: ir_version is missing"),
    (lambda m: m["attention"].update(heads=0), "1 layers and 0 heads"),
    (
        lambda m: m["attention"].update(layers=2),
        "'attention' is float32 [batch, 1, 1, source] of role attention, expected float32 [batch, 2, 1, source]",
    ),
    (lambda m: m["attention"].update(alignmentHeads=[]), "alignment_heads has 0 entries"),
    (lambda m: m["attention"].update(alignmentHeads=[{"head": 1}]), "names layer 0 head 1 of 1 layers"),
    (lambda m: m["attention"].update(alignmentHeads=[{}, {}]), "names layer 0 head 0 twice"),
    (lambda m: m.update(attention={}), "are attention, next.state.count, scores, expected next.state.count, scores"),
]


@pytest.mark.parametrize(("change", "said"), WRONG_FIELDS)
def test_what_the_manifest_lacks_or_has_wrong_is_named(bundle: Path, change: Change, said: str) -> None:
    rewrite(bundle, change)
    assert said in refusal(bundle)


WRONG_PORTS: list[tuple[Change, str]] = [
    (lambda m: port(m, "encode", "inputs", "source").pop("role"), "port 'source' has no role"),
    (
        lambda m: port(m, "encode", "inputs", "source").update(dtype="int32"),
        "is int32 [batch, source] of role source, expected int64",
    ),
    (lambda m: port(m, "encode", "inputs", "source").update(dtype="string"), "has dtype 'string'"),
    (
        lambda m: port(m, "encode", "inputs", "source").update(axes=["batch"]),
        "int64 [batch] of role source, expected int64 [batch, source]",
    ),
    (
        lambda m: port(m, "encode", "inputs", "source").update(name="ids"),
        "encode inputs are ids, source_length, expected source, source_length",
    ),
    (lambda m: port(m, "encode", "inputs", "source").update(name="-"), "name '-' is not one of a port"),
    (lambda m: m["profiles"][0]["encode"]["inputs"].pop(), "encode inputs are source, expected source, source_length"),
    (lambda m: m["profiles"][0]["encode"].update(outputs=[]), "hold neither memory nor state"),
    (lambda m: step(m, "outputs", "scores").update(role="PORT_ROLE_TOKEN"), "the scores have axes []"),
    (lambda m: step(m, "outputs", "scores").update(axes=["batch", "65"]), "N from 5 to the vocabulary_size 64"),
    (lambda m: step(m, "outputs", "scores").update(axes=["batch", "vocabulary"]), "[batch, vocabulary]"),
    (lambda m: step(m, "outputs", "scores").update(axes=["batch", "60"]), "different widths: 60, 64"),
    (lambda m: step(m, "outputs", "scores").update(axes=["64", "batch"]), "the first one must be 'batch'"),
    (
        lambda m: step(m, "outputs", "attention").update(dtype="float16"),
        "'attention' is float16 [batch, 1, 1, source] of role attention, expected float32",
    ),
    (lambda m: step(m, "outputs", "attention").update(axes=["batch", "1", "1", "0"]), "has axis '0'"),
    (
        lambda m: step(m, "outputs", "next.state.count").update(name="state.count"),
        "are attention, scores, state.count, expected attention, next.state.count, scores",
    ),
    (
        lambda m: step(m, "outputs", "next.state.count").update(name="next.state.other"),
        "are attention, next.state.other, scores, expected attention, next.state.count",
    ),
    (
        lambda m: step(m, "outputs", "next.state.count").update(axes=["batch", "2"]),
        "'next.state.count' is float32 [batch, 2] of role state, expected float32 [batch, 1]",
    ),
    (
        lambda m: step(m, "inputs", "memory.mask").update(dtype="int64"),
        "'memory.mask' is bool [batch, source] of role memory, expected int64",
    ),
    (
        lambda m: step(m, "inputs", "memory.mask").update(name="memory.other"),
        "encode outputs are memory.mask, memory.weights, state.count, expected memory.other",
    ),
    (lambda m: step(m, "inputs", "memory.mask").update(name="memory.weights"), "'memory.weights' more than once"),
    (
        lambda m: port(m, "encode", "outputs", "memory.mask").update(name="mask"),
        "encode outputs are mask, memory.weights, state.count, expected memory.mask",
    ),
    (
        lambda m: port(m, "encode", "outputs", "memory.mask").update(role="PORT_ROLE_SCORES"),
        "'memory.mask' is bool [batch, source] of role scores, expected bool [batch, source] of role memory",
    ),
]


@pytest.mark.parametrize(("change", "said"), WRONG_PORTS)
def test_ports_that_do_not_keep_the_contract_are_named(bundle: Path, change: Change, said: str) -> None:
    rewrite(bundle, change)
    assert said in refusal(bundle)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"name": "a", "name": "b"}', b'{"version": 1.5}'])
def test_a_manifest_that_cannot_be_parsed_is_refused(bundle: Path, content: bytes) -> None:
    (bundle / "bundle.json").write_bytes(content)
    assert "bundle.json is not a manifest" in refusal(bundle)


def test_a_huge_manifest_is_not_read(bundle: Path) -> None:
    (bundle / "bundle.json").write_bytes(b" " * (4 * 1024 * 1024 + 1))
    assert "bundle.json has 4194305 bytes" in refusal(bundle)


def test_a_directory_without_manifest_is_refused(tmp_path: Path) -> None:
    assert "there is no bundle.json" in refusal(tmp_path)


def test_one_flipped_byte_is_found_by_its_digest(bundle: Path) -> None:
    path = bundle / "step.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert "file step.onnx has sha256" in refusal(bundle)


@pytest.mark.parametrize("left", [0, 460, 919])
def test_a_cut_file_is_refused_with_both_sizes(bundle: Path, left: int) -> None:
    path = bundle / "step.onnx"
    path.write_bytes(path.read_bytes()[:left])
    assert f"file step.onnx has {left} bytes, expected 920" in refusal(bundle)


def test_a_bundle_is_read_again_once_its_file_is_mended(bundle: Path) -> None:
    path = bundle / "step.onnx"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    refusal(bundle)
    path.write_bytes(content)
    assert load_bundle(bundle).key.name == "null"


def test_a_missing_file_is_named(bundle: Path) -> None:
    (bundle / "encode.onnx").rename(bundle / "encode2.onnx")
    assert "file encode.onnx is missing" in refusal(bundle)


def test_a_file_that_no_digest_covers_is_refused(bundle: Path) -> None:
    (bundle / "step.onnx.data").write_bytes(b"weights")
    assert "'step.onnx.data' is in the directory but not among the files" in refusal(bundle)


def test_a_file_that_is_a_link_out_of_the_bundle_is_refused(bundle: Path) -> None:
    outside = bundle.parent / "step.onnx"
    (bundle / "step.onnx").rename(outside)
    (bundle / "step.onnx").symlink_to(outside)
    assert "file step.onnx is a link that leaves the bundle" in refusal(bundle)


@pytest.mark.parametrize("name", ["../tokenizer.json", "/etc/hosts", "a/b", "a\\b", "..", ".hidden", "", "bundle.json"])
def test_file_names_with_directories_are_refused(bundle: Path, name: str) -> None:
    rewrite(bundle, lambda manifest: manifest["files"][0].update(path=name))
    assert "expected a plain file name" in refusal(bundle)


WRONG_PARITY: list[tuple[Change, str]] = [
    (lambda m: m["profiles"][1].pop("parity"), "profile 'cpu': parity is missing"),
    (lambda m: parity(m).update(tolerance=0), "parity.tolerance is 0.0, expected a positive number"),
    (lambda m: parity(m).update(tolerance="Infinity"), "parity.tolerance is inf"),
    (lambda m: parity(m).update(tolerance="NaN"), "parity.tolerance is nan"),
    (lambda m: parity(m).update(tolerance=1), "parity.tolerance is 1.0, expected a positive number up to 0.01"),
    (lambda m: parity(m).pop("batches"), "parity.batches is [], expected positive numbers"),
    (lambda m: parity(m).update(sourceLengths=[0]), "parity.source_lengths is [0]"),
    (lambda m: parity(m).pop("steps"), "parity.steps is [0]"),
    (lambda m: parity(m).update(greedyAgreement=1.5), "parity.greedy_agreement is 1.5, expected 0 to 1"),
    (lambda m: off(m, "scores", 2e-6), "the port 'scores' is off by 2e-06, and 1e-06 is allowed"),
    (lambda m: off(m, "attention", "NaN"), "the port 'attention' is off by nan"),
    (lambda m: parity(m).update(ports=[]), "parity does not cover the port 'attention'"),
    (lambda m: parity(m)["ports"].append({"port": "logits"}), "parity covers 'logits', which is no port"),
    (lambda m: parity(m)["ports"].append({"port": "scores"}), "parity covers 'scores', which is no port, or is there"),
]


def parity(manifest: Manifest) -> Manifest:
    return manifest["profiles"][1]["parity"]


def off(manifest: Manifest, name: str, difference: float | str) -> None:
    next(entry for entry in parity(manifest)["ports"] if entry["port"] == name).update(worstAbsolute=difference)


@pytest.mark.parametrize(("change", "said"), WRONG_PARITY)
def test_a_profile_that_was_not_compared_or_is_too_far_off_is_refused(bundle: Path, change: Change, said: str) -> None:
    rewrite(bundle, change)
    assert said in refusal(bundle)


def test_a_file_listed_twice_is_refused(bundle: Path) -> None:
    rewrite(bundle, lambda manifest: manifest["files"].append(manifest["files"][0]))
    assert "file README.md is listed twice" in refusal(bundle)


def test_a_file_without_digest_is_refused(bundle: Path) -> None:
    rewrite(bundle, lambda manifest: manifest["files"][0].pop("sha256"))
    assert "file README.md has no sha256" in refusal(bundle)


def test_the_vocabulary_of_another_model_is_found_though_it_has_the_same_size(bundle: Path) -> None:
    path = bundle / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    names = list(vocabulary)
    vocabulary[names[-1]], vocabulary[names[-2]] = vocabulary[names[-2]], vocabulary[names[-1]]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    said = refusal(bundle)
    assert "file tokenizer.json has" in said


def test_a_tokenizer_with_other_special_ids_is_refused_whatever_its_digest(bundle: Path) -> None:
    path = bundle / "tokenizer.json"
    text = path.read_text(encoding="utf-8").replace('"<s>"', '"@"').replace('"</s>"', '"<s>"').replace('"@"', '"</s>"')
    path.write_text(text, encoding="utf-8")
    list_again(bundle)
    assert "file tokenizer.json has id 3 for <s>, expected 2" in refusal(bundle)


def test_a_tokenizer_that_does_not_end_its_texts_is_refused(bundle: Path) -> None:
    path = bundle / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["post_processor"] = None
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    list_again(bundle)
    assert "does not end a text with </s>" in refusal(bundle)


def test_a_tokenizer_with_a_hole_in_its_ids_is_refused(bundle: Path) -> None:
    path = bundle / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    vocabulary[max(vocabulary, key=vocabulary.__getitem__)] += 1
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    list_again(bundle)
    assert "file tokenizer.json has ids that are not 0 to 63" in refusal(bundle)


def test_a_tokenizer_that_is_none_is_refused(bundle: Path) -> None:
    (bundle / "tokenizer.json").write_text("{}", encoding="utf-8")
    list_again(bundle)
    assert "file tokenizer.json is not a tokenizer" in refusal(bundle)


def test_the_embedded_null_bundle_is_whole() -> None:
    loaded: LoadedBundle = load_bundle(NULL)
    assert loaded.manifest.files

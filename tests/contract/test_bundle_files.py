"""A bundle appears whole or not at all, and an altered one is refused by the name of the file (X08)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.export.toy import quiet

from regard.cli.main import main as command
from regard.contract.bundle import load_bundle
from regard.contract.errors import BundleError as ContractError
from regard.contract.names import MODEL_NAME, MODEL_VERSION, key_of_path
from regard.export.bundle.writer import Bundle, canonical_json, read_bundle, write_bundle
from regard.export.errors import BundleError
from regard.export.families.null import null_bundle
from regard.export.verify import verify
from regard.server.bundle.registry import Registry
from regard.server.errors import BundleError as ServerRefusal
from regard.v1 import bundle_pb2


@pytest.fixture(scope="module")
def null() -> Bundle:
    """The null bundle in memory."""
    return null_bundle()


@pytest.fixture
def written(null: Bundle, tmp_path: Path) -> Path:
    """A bundle on disk that may be spoiled."""
    target = tmp_path / "null" / "1"
    write_bundle(target, null)
    return target


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_written_bundle_is_read_as_it_was(null: Bundle, written: Path) -> None:
    read = read_bundle(written)
    assert read.files == null.files
    assert {entry.path for entry in read.manifest.files} == {*null.files, "README.md"}
    assert names(written) == {*null.files, "README.md", "bundle.json"}


def test_equal_bundles_give_equal_bytes(null: Bundle, written: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "other" / "null" / "1", null)
    for name in names(written):
        assert (tmp_path / "other" / "null" / "1" / name).read_bytes() == (written / name).read_bytes()
    manifest = read_bundle(written).manifest
    assert canonical_json(manifest) == (written / "bundle.json").read_text(encoding="utf-8")


def test_bundle_holds_wherever_it_is_copied_to(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "elsewhere" / "null" / "1"
    shutil.copytree(written, copy)
    shutil.rmtree(written)
    monkeypatch.chdir("/")
    verify(copy, quiet)


def test_existing_bundle_is_left_alone_unless_it_is_to_be_replaced(null: Bundle, written: Path) -> None:
    before = (written / "bundle.json").read_bytes()
    other = Bundle(bundle_pb2.Bundle(description="another"), {"step.onnx": b"another"})
    with pytest.raises(BundleError, match="exists already"):
        write_bundle(written, other)
    assert (written / "bundle.json").read_bytes() == before
    write_bundle(written, other, replace=True, check=False)
    assert names(written) == {"step.onnx", "README.md", "bundle.json"}
    assert names(written.parent) == {"1"}


def test_failure_midway_leaves_nothing(null: Bundle, tmp_path: Path) -> None:
    files = {**null.files, "missing/folder.onnx": b"cannot be written"}
    with pytest.raises(FileNotFoundError):
        write_bundle(tmp_path / "null" / "1", Bundle(null.manifest, files))
    assert names(tmp_path / "null") == set()


def test_failure_midway_leaves_the_bundle_that_was_there(null: Bundle, written: Path) -> None:
    files = {**null.files, "missing/folder.onnx": b"cannot be written"}
    with pytest.raises(FileNotFoundError):
        write_bundle(written, Bundle(null.manifest, files), replace=True)
    verify(written, quiet)
    assert names(written.parent) == {"1"}


def test_failed_swap_puts_the_old_bundle_back(null: Bundle, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def fail_for_the_new_one(self: Path, target: Path) -> Path:
        if ".partial-" in self.name:
            raise OSError("no space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with pytest.raises(OSError, match="no space"):
        write_bundle(written, null, replace=True)
    verify(written, quiet)
    assert names(written.parent) == {"1"}


def test_what_the_server_would_refuse_is_not_written(null: Bundle, written: Path) -> None:
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(null.manifest)
    manifest.limits.max_target_tokens = 0
    with pytest.raises(BundleError, match=f"^bundle {written}: limits.max_target_tokens is 0"):
        write_bundle(written, Bundle(manifest, null.files), replace=True)
    verify(written, quiet)
    assert names(written.parent) == {"1"}


def test_bundle_that_is_too_large_is_refused_before_anything_is_written(null: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="MB"):
        write_bundle(tmp_path / "null" / "1", null, largest=1000)
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    "path", ["Null/1", "null/01", "null/0", "null/latest", "-a/1", "null/1.0", "_a/1", "null/1234567890"]
)
def test_path_that_names_no_bundle_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="NAME/VERSION"):
        key_of_path(tmp_path / path)


@pytest.mark.parametrize(
    ("name", "version", "sound"),
    [
        ("a" * 64, "9" * 9, True),
        ("a" * 65, "1", False),
        ("a", "9" * 10, False),
        ("a", "0", False),
        ("a_b.c", "1", True),
    ],
)
def test_names_and_versions_have_one_longest(name: str, version: str, sound: bool) -> None:
    assert accepted(name, version) == sound


@given(st.text("ab09-._A", max_size=70), st.text("0159a", max_size=12))
def test_a_path_is_accepted_as_the_patterns_say(name: str, version: str) -> None:
    assert accepted(name, version) == bool(MODEL_NAME.fullmatch(name) and MODEL_VERSION.fullmatch(version))


def accepted(name: str, version: str) -> bool:
    try:
        return key_of_path(Path("/models", name, version)) == (name, version)
    except ContractError:
        return False


@pytest.mark.parametrize("name", ["encode.onnx", "step.onnx", "tokenizer.json", "README.md"])
def test_flipped_bit_is_refused_by_file(name: str, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray((written / name).read_bytes())
    data[len(data) // 2] ^= 1
    (written / name).write_bytes(data)
    assert command(["verify", str(written)]) == 1
    assert f"file {name} has sha256" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_truncated_file_is_refused_by_name_and_sizes(share: float, written: Path) -> None:
    data = (written / "step.onnx").read_bytes()
    left = int(len(data) * share)
    (written / "step.onnx").write_bytes(data[:left])
    refused_by_both(written, f"step.onnx has {left} bytes, expected {len(data)}")


def test_mended_bundle_holds_again(written: Path) -> None:
    data = (written / "step.onnx").read_bytes()
    (written / "step.onnx").write_bytes(data[:-1])
    refused_by_both(written, r"step\.onnx has")
    (written / "step.onnx").write_bytes(data)
    verify(written, quiet)
    assert load_bundle(written).key.name == "null"


def test_vocabulary_of_another_model_is_refused_though_it_has_the_same_size(written: Path) -> None:
    path = written / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    swapped = text.replace('"echo58"', '"@"').replace('"echo59"', '"echo58"').replace('"@"', '"echo59"')
    assert len(swapped) == len(text)
    path.write_text(swapped, encoding="utf-8")
    refused_by_both(written, r"tokenizer\.json has sha256 .* it was altered")


def test_missing_file_is_refused_by_name(written: Path) -> None:
    (written / "encode.onnx").rename(written / "encoder.onnx")
    with pytest.raises(BundleError, match=r"encode\.onnx is missing"):
        verify(written, quiet)


def test_file_of_another_version_with_the_same_size_is_refused(written: Path) -> None:
    data = (written / "step.onnx").read_bytes()
    assert data.count(b"echo") == 0
    (written / "step.onnx").write_bytes(bytes(reversed(data)))
    with pytest.raises(BundleError, match="it was altered"):
        verify(written, quiet)


def test_bundle_under_another_name_is_refused(written: Path) -> None:
    moved = written.with_name("2")
    written.rename(moved)
    with pytest.raises(BundleError, match="another bundle than its path says"):
        verify(moved, quiet)


def test_manifest_of_another_format_is_refused(written: Path) -> None:
    text = (written / "bundle.json").read_text(encoding="utf-8")
    (written / "bundle.json").write_text(text.replace('"formatVersion": 1', '"formatVersion": 2'), encoding="utf-8")
    with pytest.raises(BundleError, match="format_version is 2, expected 1"):
        verify(written, quiet)


def test_manifest_with_unknown_fields_is_refused(written: Path) -> None:
    text = (written / "bundle.json").read_text(encoding="utf-8")
    (written / "bundle.json").write_text(text.replace('"formatVersion"', '"formatVersoin"'), encoding="utf-8")
    with pytest.raises(BundleError, match="formatVersoin"):
        verify(written, quiet)


def test_manifest_that_names_files_elsewhere_is_refused(written: Path) -> None:
    text = (written / "bundle.json").read_text(encoding="utf-8")
    (written / "bundle.json").write_text(text.replace('"path": "step.onnx"', '"path": "../step.onnx"'), "utf-8")
    with pytest.raises(BundleError, match=r"expected a plain file name beside bundle\.json"):
        verify(written, quiet)


def refused_by_both(folder: Path, said: str) -> None:
    """Have `regard verify` and the server refuse a bundle, which they read with one reader: in the same words."""
    with pytest.raises(ContractError, match=said) as first:
        load_bundle(folder)
    with pytest.raises(BundleError) as verified:
        verify(folder, quiet)
    with pytest.raises(ServerRefusal) as served:
        Registry.discover([folder.parents[1]], default=None, profile=None)
    assert str(first.value) == str(verified.value) == str(served.value)


def test_file_that_the_manifest_does_not_list_is_refused(written: Path) -> None:
    (written / "weights.bin").write_bytes(b"covered by no digest")
    refused_by_both(written, "weights.bin' is in the directory but not among the files")


def test_link_that_leaves_the_bundle_is_refused(written: Path) -> None:
    (written / "step.onnx").rename(written.parent / "step.onnx")
    (written / "step.onnx").symlink_to(written.parent / "step.onnx")
    refused_by_both(written, r"step\.onnx is a link that leaves the bundle")


def test_file_that_is_listed_twice_is_refused(written: Path) -> None:
    rewrite(written, lambda manifest: manifest["files"].append(manifest["files"][0]))
    refused_by_both(written, "is listed twice")


def without(field: str) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest.pop(field)


def set_limit(name: str, value: int) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["limits"].update({name: value})


def set_attention(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["attention"].update(changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("limits"), "limits.max_source_tokens is 0"),
        (set_limit("maxSourceTokens", 1), "limits.max_source_tokens is 1"),
        (set_limit("maxSourceTokens", 65_536), "limits.max_source_tokens is 65536"),
        (set_limit("maxTargetTokens", 0), "limits.max_target_tokens is 0"),
        (
            without("attention"),
            "step outputs are attention, next.state.count, scores, expected next.state.count, scores",
        ),
        (set_attention(alignmentHeads=[]), "alignment_heads has 0 entries"),
        (set_attention(alignmentHeads=[{"layer": 1, "head": 0}]), "layer 1 head 0 of 1 layers and 1 heads"),
        (set_attention(alignmentHeads=[{"layer": 0, "head": -1}]), "layer 0 head -1"),
        (set_attention(alignmentHeads=[{"layer": 0}, {"head": 0}]), "names layer 0 head 0 twice"),
        (set_attention(heads=0), "expected both positive"),
        (
            set_attention(heads=2),
            r"float32 \[batch, 1, 1, source\] of role attention, expected float32 \[batch, 1, 2, source\]",
        ),
    ],
)
def test_limits_and_attention_that_cannot_be_served_are_refused(
    change: Callable[[dict[str, Any]], object], said: str, written: Path
) -> None:
    rewrite(written, change)
    refused_by_both(written, said)


def in_record(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["profiles"][1]["parity"].update(changes)


def without_record(manifest: dict[str, Any]) -> None:
    del manifest["profiles"][1]["parity"]


def with_another_port(manifest: dict[str, Any]) -> None:
    manifest["profiles"][1]["parity"]["ports"].append({"port": "logits"})


def off_by(port: str, difference: float | str) -> Callable[[dict[str, Any]], object]:
    def change(manifest: dict[str, Any]) -> None:
        for entry in manifest["profiles"][1]["parity"]["ports"]:
            if entry["port"] == port:
                entry["worstAbsolute"] = difference

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_record, "profile 'cpu': parity is missing"),
        (in_record(tolerance=0), "parity.tolerance is 0.0"),
        (in_record(tolerance="Infinity"), "parity.tolerance is inf"),
        (in_record(tolerance=1), "parity.tolerance is 1.0, expected a positive number up to 0.01"),
        (in_record(batches=[]), r"parity.batches is \[\]"),
        (in_record(sourceLengths=[0]), r"parity.source_lengths is \[0\]"),
        (in_record(steps=0), r"parity.steps is \[0\]"),
        (in_record(greedyAgreement=1.5), "parity.greedy_agreement is 1.5"),
        (in_record(ports=[]), "does not cover the port 'attention'"),
        (in_record(ports=[{"port": "logits"}]), "does not cover the port 'attention'"),
        (with_another_port, "covers 'logits'"),
        (off_by("scores", 2e-6), "'scores' is off by 2e-06, and 1e-06 is allowed"),
        (off_by("attention", "NaN"), "'attention' is off by nan"),
    ],
)
def test_profile_that_was_not_compared_or_is_too_far_off_is_refused(
    change: Callable[[dict[str, Any]], object], said: str, written: Path
) -> None:
    rewrite(written, change)
    refused_by_both(written, said)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    change(manifest)
    (folder / "bundle.json").write_text(json.dumps(manifest), encoding="utf-8")

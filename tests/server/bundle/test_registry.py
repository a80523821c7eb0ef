"""Which bundles a server finds, and which of them a name and a version mean."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from tests.bundles import NULL

from regard.contract.names import ModelKey
from regard.server.bundle.registry import Registry
from regard.server.errors import BundleError, ModelNotFound, SettingsError


def add(root: Path, name: str, version: str, *, at: str = "") -> Path:
    """Put a bundle of this name and version into a root, or elsewhere under it."""
    directory = root / (at or f"{name}/{version}")
    shutil.copytree(NULL, directory)
    path = directory / "bundle.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest.update(name=name, version=version)
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return directory


def discover(*roots: Path, default: str | None = None) -> Registry:
    return Registry.discover(roots, default=default, profile=None)


def test_versions_are_ordered_as_numbers(tmp_path: Path) -> None:
    for version in ("1", "9", "10", "2"):
        add(tmp_path, "alpha", version)
    found = discover(tmp_path)

    assert [bundle.key.version for bundle in found.bundles] == ["10", "9", "2", "1"]
    assert found.resolve("alpha", "").key.version == "10"
    assert found.resolve("alpha", "9").key.version == "9"


def test_models_are_listed_by_name(tmp_path: Path) -> None:
    for name in ("gamma", "alpha", "beta"):
        add(tmp_path, name, "1")
    assert [bundle.key.name for bundle in discover(tmp_path).bundles] == ["alpha", "beta", "gamma"]


@pytest.mark.parametrize("odd", ["007", "v3", "0", "latest", ".tmp", "1.0", "-1", "1 ", "10000000000"])
def test_odd_version_names_are_left_aside_and_reported(tmp_path: Path, odd: str) -> None:
    add(tmp_path, "alpha", "2")
    shutil.copytree(NULL, tmp_path / "alpha" / odd)
    found = discover(tmp_path)

    assert [bundle.key for bundle in found.bundles] == [ModelKey("alpha", "2")]
    assert len(found.warnings) == 1
    assert f"{tmp_path / 'alpha' / odd}" in found.warnings[0]


@pytest.mark.parametrize("odd", [".alpha.partial-1", "Alpha", "a b", "é", "x" * 65])
def test_odd_model_names_are_left_aside_and_reported(tmp_path: Path, odd: str) -> None:
    add(tmp_path, "alpha", "1")
    shutil.copytree(NULL, tmp_path / odd / "1")
    found = discover(tmp_path)

    assert [bundle.key.name for bundle in found.bundles] == ["alpha"]
    assert odd in found.warnings[0]


def test_files_and_empty_models_are_reported(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()

    assert discover(tmp_path).warnings == (
        f"{tmp_path / 'notes.txt'} is left aside: it is no directory",
        f"{tmp_path / 'empty'} holds no version",
    )


def test_one_broken_bundle_of_two_is_an_error_that_names_it(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    broken = add(tmp_path, "beta", "1")
    (broken / "step.onnx").write_bytes(b"")
    with pytest.raises(BundleError, match=r"step\.onnx") as caught:
        discover(tmp_path)
    assert str(broken) in str(caught.value)


def test_no_bundle_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no NAME/VERSION directory"):
        discover(tmp_path)


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot list"):
        discover(tmp_path / "nowhere")


def test_a_bundle_in_the_directory_of_another_is_an_error(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1", at="beta/1")
    with pytest.raises(BundleError, match="manifest says alpha/1, but it lies in beta/1"):
        discover(tmp_path)


def test_the_same_version_in_two_roots_is_an_error_that_names_both(tmp_path: Path) -> None:
    first, second = add(tmp_path / "a", "alpha", "1"), add(tmp_path / "b", "alpha", "1")
    with pytest.raises(BundleError) as caught:
        discover(tmp_path / "a", tmp_path / "b")
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


@pytest.mark.parametrize("link", ["alpha", "beta/2"])
def test_a_link_that_leaves_the_root_is_an_error(tmp_path: Path, link: str) -> None:
    outside = add(tmp_path / "outside", "alpha", "1")
    root = tmp_path / "root"
    add(root, "beta", "1")
    (root / link).symlink_to(outside if "/" in link else outside.parent)
    with pytest.raises(BundleError, match="is a link that leaves"):
        discover(root)


def test_a_root_may_itself_be_a_link(tmp_path: Path) -> None:
    add(tmp_path / "real", "alpha", "1")
    (tmp_path / "models").symlink_to(tmp_path / "real")
    assert discover(tmp_path / "models").default.key.name == "alpha"


def test_the_only_model_is_the_default(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    add(tmp_path, "alpha", "2")
    found = discover(tmp_path)
    assert found.default.key == found.resolve("", "").key == ModelKey("alpha", "2")
    assert found.resolve("", "1").key.version == "1"


def test_the_default_is_the_first_by_name_of_the_first_root(tmp_path: Path) -> None:
    add(tmp_path / "one", "delta", "1")
    add(tmp_path / "one", "gamma", "1")
    add(tmp_path / "two", "alpha", "1")
    assert discover(tmp_path / "one", tmp_path / "two").default.key.name == "delta"


def test_the_default_can_be_named(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    add(tmp_path, "beta", "1")
    assert discover(tmp_path, default="beta").default.key.name == "beta"


@pytest.mark.parametrize(
    ("default", "preferred", "chosen"),
    [(None, "gamma", "gamma"), ("beta", "gamma", "beta"), (None, "delta", "alpha"), (None, None, "alpha")],
)
def test_a_preferred_model_is_the_default_unless_another_is_named_or_it_is_not_there(
    tmp_path: Path, default: str | None, preferred: str | None, chosen: str
) -> None:
    for name in ("alpha", "beta", "gamma"):
        add(tmp_path, name, "1")
    found = Registry.discover([tmp_path], default=default, profile=None, preferred=preferred)
    assert found.default.key.name == found.resolve("", "").key.name == chosen


def test_a_default_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    with pytest.raises(SettingsError, match="'beta' is none of alpha"):
        discover(tmp_path, default="beta")


def test_the_wanted_profile_is_chosen_for_every_bundle(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    found = Registry.discover([tmp_path], default=None, profile="portable")
    assert found.default.profile == "portable"


def test_an_unknown_model_is_answered_with_those_there_are(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    with pytest.raises(ModelNotFound, match=r"'beta'.* alpha"):
        discover(tmp_path).resolve("beta", "")


def test_an_unknown_version_is_answered_with_those_there_are(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "2")
    with pytest.raises(ModelNotFound, match=r"alpha version 1.* alpha version 2"):
        discover(tmp_path).resolve("alpha", "1")


@pytest.mark.parametrize("version", ["02", "2.0", "latest", "../2", "-2", "2 ", "\uff12"])
def test_a_version_is_found_only_by_its_own_name(tmp_path: Path, version: str) -> None:
    add(tmp_path, "alpha", "2")
    with pytest.raises(ModelNotFound):
        discover(tmp_path).resolve("alpha", version)


@pytest.mark.parametrize(
    "name",
    [
        "../alpha",
        "..\\alpha",
        "/etc/passwd",
        "a/../../b",
        "%2e%2e/",
        "x\0y",
        "x" * 10_240,
        ".",
        " ",
        "alpha/1",
        "\x1b[31m",
        "alpha\n",
        "ALPHA",
    ],
)
def test_odd_names_are_not_found_and_not_repeated(tmp_path: Path, name: str) -> None:
    add(tmp_path, "alpha", "1")
    found = discover(tmp_path)
    shutil.rmtree(tmp_path)  # A look at any file would now fail in another way.

    with pytest.raises(ModelNotFound) as caught:
        found.resolve(name, "")
    said = str(caught.value)
    assert len(said) < 120
    assert said.isprintable()
    assert not any(part in said for part in ("../", "..\\", "/etc", "%2e", "\0", "\x1b"))


def test_a_known_name_is_found_without_touching_files(tmp_path: Path) -> None:
    add(tmp_path, "alpha", "1")
    found = discover(tmp_path)
    shutil.rmtree(tmp_path)
    assert found.resolve("alpha", "1").key == ModelKey("alpha", "1")


def test_digests_tell_versions_apart(tmp_path: Path) -> None:
    directories = [add(tmp_path, "alpha", version) for version in ("1", "2")]
    digests = [hashlib.sha256((path / "bundle.json").read_bytes()).hexdigest() for path in directories]
    found = discover(tmp_path)
    assert [found.resolve("alpha", version).digest for version in ("1", "2")] == digests

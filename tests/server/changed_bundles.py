"""A bundle on disk that tests change before it is read, and what is said of it then.

It knows no test.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bundles import NULL

from regard.contract.bundle import load_bundle
from regard.contract.errors import BundleError

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]


def copy_of_null(folder: Path) -> Path:
    """A whole bundle, to be changed."""
    return Path(shutil.copytree(NULL, folder / "bundle"))


def rewrite(directory: Path, change: Change) -> None:
    path = directory / "bundle.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def list_again(directory: Path) -> None:
    """Make the manifest vouch for the files as they are."""

    def change(manifest: Manifest) -> None:
        for entry in manifest["files"]:
            content = (directory / entry["path"]).read_bytes()
            entry.update(sizeBytes=str(len(content)), sha256=hashlib.sha256(content).hexdigest())

    rewrite(directory, change)


def refusal(directory: Path, profile: str | None = None) -> str:
    with pytest.raises(BundleError) as caught:
        load_bundle(directory, profile=profile)
    assert str(directory) in str(caught.value)
    return str(caught.value)


def step(manifest: Manifest, side: str, name: str) -> Manifest:
    return port(manifest, "step", side, name)


def port(manifest: Manifest, graph: str, side: str, name: str) -> Manifest:
    return next(entry for entry in manifest["profiles"][0][graph][side] if entry["name"] == name)


def speak(manifest: Manifest, languages: list[str], **ends: int) -> None:
    """Let a manifest have languages, and ids for them that no step predicts."""
    manifest["targetLanguages"] = languages
    manifest["tokenizer"]["targetEndIds"] = ends
    for profile in manifest["profiles"]:
        next(entry for entry in profile["step"]["outputs"] if entry["name"] == "scores")["axes"][1] = "60"

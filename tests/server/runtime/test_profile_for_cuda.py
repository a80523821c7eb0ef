"""Graphs for CUDA run where CUDA does, and elsewhere only for those who name them."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path

import pytest
from tests.cuda_machines import break_cuda
from tests.server.changed_bundles import Manifest, copy_of_null, rewrite
from tests.server.serving import fake_model, serving

from regard.contract.bundle import load_bundle
from regard.server.bundle.registry import Registry
from regard.server.runtime.session import CPU, CUDA, open_model, with_provider_profile
from regard.v1 import model_pb2


def add_cuda(manifest: Manifest) -> None:
    """Give the bundle a profile for CUDA, whose graphs are those of another."""
    manifest["profiles"].append({**copy.deepcopy(manifest["profiles"][0]), "name": "cuda"})


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The null bundle in a folder of models, with the profiles portable, cpu and cuda."""
    folder = tmp_path / "null" / "1"
    folder.parent.mkdir()
    copy_of_null(tmp_path).rename(folder)
    rewrite(folder, add_cuda)
    return folder


@pytest.mark.parametrize(("provider", "profile"), [(CUDA, "cuda"), (CPU, "cpu"), ("SomeExecutionProvider", "cpu")])
def test_the_provider_chooses_among_profiles(bundle: Path, provider: str, profile: str) -> None:
    assert with_provider_profile(load_bundle(bundle), provider).profile == profile


@pytest.mark.parametrize("profile", ["portable", "cpu", "cuda"])
def test_a_profile_that_was_named_runs_everywhere(bundle: Path, profile: str) -> None:
    loaded = load_bundle(bundle, profile=profile)
    assert {with_provider_profile(loaded, provider).profile for provider in (CPU, CUDA)} == {profile}


def test_a_registry_of_other_graphs_finds_them_whichever_way_it_is_asked(bundle: Path) -> None:
    registry = Registry.discover([bundle.parents[1]], default=None, profile=None)
    held = registry.holding([with_provider_profile(bundle, CUDA) for bundle in registry.bundles])
    found = [held.default, held.resolve("", ""), held.resolve("null", ""), held.resolve("null", "1"), *held.bundles]
    assert {each.profile for each in found} == {"cuda"}
    assert all(held.is_default(each) for each in found)
    assert registry.default.profile == "cpu"


@pytest.mark.parametrize(("provider", "profile"), [(CUDA, "cuda"), (CPU, "cpu")])
def test_a_server_tells_the_profile_that_it_runs(bundle: Path, provider: str, profile: str) -> None:
    model = fake_model()
    model.provider = provider

    async def run() -> None:
        async with serving(model, models=(bundle.parents[1],)) as served:
            (listed,) = (await served.models.ListModels(model_pb2.ListModelsRequest())).models
            assert listed.profile == profile
            assert (await served.translate("echo1")).model.profile == profile

    asyncio.run(run())


def test_cuda_that_does_not_work_leaves_the_default_profile(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_cuda(monkeypatch)
    opened = open_model(load_bundle(bundle), device="auto", intra_op_threads=1)
    assert (opened.provider, opened.bundle.profile) == (CPU, "cpu")

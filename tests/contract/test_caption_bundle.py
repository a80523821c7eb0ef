"""What a bundle of a captioning model must be to be served, and what is said of one that is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bundles import NULL
from tests.server.caption_fakes import CELLS, COLUMNS, ROWS, SIDE, write_caption_bundle

from regard.contract.bundle import load_bundle
from regard.contract.errors import BundleError
from regard.contract.image_input import ImageInput
from regard.contract.tasks import Task
from regard.server.runtime.graph_check import describe

Manifest = dict[str, Any]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_caption_bundle(tmp_path)


def rewrite(directory: Path, change: Callable[[Manifest], object]) -> Path:
    path = directory / "bundle.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return directory


def each(manifest: Manifest, graph: str, side: str) -> list[list[Manifest]]:
    return [profile[graph][side] for profile in manifest["profiles"]]


def add_encoder_attention(manifest: Manifest, *, axes: tuple[str, ...] = ("batch", "1", "2", "49", "49")) -> None:
    for outputs in each(manifest, "encode", "outputs"):
        outputs.append(
            {
                "name": "attention.encoder",
                "role": "PORT_ROLE_ENCODER_ATTENTION",
                "dtype": "float32",
                "axes": list(axes),
            }
        )
    for profile in manifest["profiles"]:
        profile["parity"]["ports"].append({"port": "attention.encoder", "worstAbsolute": 0.0})


def test_a_whole_bundle_says_its_task_and_what_pictures_it_takes(bundle: Path) -> None:
    loaded = load_bundle(bundle)
    assert loaded.task is Task.CAPTIONING
    assert loaded.image == ImageInput(
        height=SIDE, width=SIDE, rows=ROWS, columns=COLUMNS, resampling="bilinear", ground=(255, 255, 255)
    )
    assert loaded.image is not None
    assert loaded.image.cells == loaded.max_source_tokens == CELLS


def test_the_engine_is_told_the_size_of_pictures(bundle: Path) -> None:
    facts = describe(load_bundle(bundle))
    assert facts.pixels == (SIDE, SIDE)
    assert facts.max_source_tokens == CELLS


def test_a_bundle_of_a_translator_reads_no_pictures() -> None:
    loaded = load_bundle(NULL)
    assert (loaded.task, loaded.image) == (Task.TRANSLATION, None)
    assert describe(loaded).pixels is None


def test_the_axis_of_cells_may_have_a_name(bundle: Path) -> None:
    def change(manifest: Manifest) -> None:
        for graph, side in (("encode", "outputs"), ("step", "inputs"), ("step", "outputs")):
            for ports in each(manifest, graph, side):
                for port in ports:
                    port["axes"] = ["source" if axis == str(CELLS) else axis for axis in port["axes"]]

    assert load_bundle(rewrite(bundle, change)).image is not None


def test_an_encoder_may_give_its_own_attention(bundle: Path) -> None:
    loaded = load_bundle(rewrite(bundle, add_encoder_attention))
    assert [port.role for port in loaded.encode.outputs].count("encoder_attention") == 1


def test_a_model_without_attention_is_read(tmp_path: Path) -> None:
    assert load_bundle(write_caption_bundle(tmp_path, without_attention=True)).ports.layers == 0


# What is changed in a manifest, and what is said of it.
OFF: list[tuple[Callable[[Manifest], object], str]] = [
    (lambda m: m.pop("image"), "image is missing"),
    (lambda m: m.update(task="TASK_TRANSLATION"), "image is there, but the task is translation"),
    (lambda m: m.pop("task"), "task is 0, known are 1 (TASK_TRANSLATION), 2 (TASK_CAPTIONING)"),
    (lambda m: m["image"].update(height=0), "image.height is 0"),
    (lambda m: m["image"].update(width=100_000), "image.width is 100000"),
    (lambda m: m["image"].update(rows=8), "limits.max_source_tokens is 49, but image has 8 x 7 cells"),
    (lambda m: m["image"].pop("resampling"), "image.resampling is 0"),
    (lambda m: m["image"].update(ground=[255, 255]), "image.ground is [255, 255]"),
    (lambda m: m["image"].update(ground=[0, 0, 256]), "image.ground is [0, 0, 256]"),
    (
        lambda m: m["image"].update(height=64),
        "'pixels' is uint8 [batch, 56, 56, 3] of role pixels, expected uint8 [batch, 64, 56, 3]",
    ),
    (
        lambda m: [ports[0].update(dtype="float32") for ports in each(m, "encode", "inputs")],
        "'pixels' is float32 [batch, 56, 56, 3] of role pixels, expected uint8",
    ),
    (
        lambda m: [ports[0].update(role="PORT_ROLE_SOURCE") for ports in each(m, "encode", "inputs")],
        "'pixels' is uint8 [batch, 56, 56, 3] of role source, expected uint8 [batch, 56, 56, 3] of role pixels",
    ),
    (
        lambda m: [ports[-1]["axes"].__setitem__(3, "50") for ports in each(m, "step", "outputs")],
        "'attention' is float32 [batch, 1, 1, 50] of role attention, expected float32 [batch, 1, 1, source]",
    ),
    (
        lambda m: add_encoder_attention(m, axes=("batch", "1", "49", "49")),
        "float32 [batch, 1, 49, 49] of role encoder_attention, expected float32 [batch, 1, 49, 49, 49]",
    ),
    (
        lambda m: add_encoder_attention(m, axes=("batch", "1", "2", "49", "50")),
        "[batch, 1, 2, 49, 50] of role encoder_attention, expected float32 [batch, 1, 2, 49, 49]",
    ),
    (
        lambda m: add_encoder_attention(m, axes=("batch", "layer", "2", "49", "49")),
        "[batch, layer, 2, 49, 49] of role encoder_attention, expected float32 [batch, NUMBER, 2",
    ),
]


@pytest.mark.parametrize(("change", "said"), OFF)
def test_a_bundle_that_is_off_is_refused_in_words(
    bundle: Path, change: Callable[[Manifest], object], said: str
) -> None:
    with pytest.raises(BundleError) as caught:
        load_bundle(rewrite(bundle, change))
    assert said in str(caught.value)

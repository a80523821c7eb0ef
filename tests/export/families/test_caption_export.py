"""A captioner goes through the one contract: pixels in, a map looked at, both profiles held to the trained network."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.export.captioners import CELLS, SMALL, Made, export_untrained
from tests.server.serving import PATIENCE, serving

from regard.contract.bundle import load_bundle
from regard.contract.errors import BundleError
from regard.contract.model_ports import NEXT
from regard.contract.ports import Port
from regard.export.bundle.card import render_card
from regard.export.bundle.writer import Bundle, write_bundle
from regard.export.families.captioner import open_captioner
from regard.export.families.graphs import TorchMachine
from regard.export.parity.greedy import BEGIN, random_pictures, step_inputs
from regard.export.parity.runtime import OnnxMachine
from regard.export.surgery.storage import round_weights
from regard.export.verify import verify
from regard.server.runtime.session import open_model
from regard.training.decoding.search import SearchConfig, search
from regard.training.models.captioner import Captioner
from regard.v1 import attention_pb2, bundle_pb2, captioning_pb2, captioning_pb2_grpc

SIZES = replace(SMALL, decoder="lstm", values=64, hidden=64, attention=64)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An untrained captioner, with self-attention over the map, exported once; nobody may write to it."""
    return export_untrained(SIZES, recipe="toy_squares", root=tmp_path_factory.mktemp("captioner"))


def machine(bundle: Bundle, profile: str) -> OnnxMachine:
    (found,) = [each for each in bundle.manifest.profiles if each.name == profile]
    return OnnxMachine(bundle.files[found.encode.file], bundle.files[found.step.file])


def test_the_bundle_verifies(made: Made) -> None:
    said: list[str] = []
    verify(made.folder, said.append)
    assert any("profiles portable and cpu" in line for line in said)


def test_the_manifest_says_how_pictures_are_made_ready(made: Made) -> None:
    manifest = made.bundle.manifest
    image = manifest.image
    assert manifest.task == bundle_pb2.TASK_CAPTIONING
    assert (image.height, image.width, image.rows, image.columns) == (24, 24, 3, 3)
    assert image.resampling == bundle_pb2.RESAMPLING_BICUBIC
    assert list(image.ground) == [255, 255, 255]
    assert not manifest.source_languages
    assert list(manifest.target_languages) == ["en"]
    assert (manifest.limits.max_source_tokens, manifest.limits.max_target_tokens) == (CELLS, 40)
    assert [(pair.layer, pair.head) for pair in manifest.attention.alignment_heads] == [(0, 0)]


def test_encode_takes_pixels_and_nothing_else(made: Made) -> None:
    graph = made.bundle.manifest.profiles[0].encode
    assert [(port.name, port.dtype, list(port.axes)) for port in graph.inputs] == [
        ("pixels", "uint8", ["batch", "24", "24", "3"])
    ]
    names = {port.name: list(port.axes) for port in graph.outputs}
    assert names["memory.keys"] == ["batch", "9", "64"]
    assert names["attention.encoder"] == ["batch", "1", "1", "9", "9"]
    assert "memory.mask" not in names
    assert {"state.hidden", "state.cell"} <= set(names)


def test_both_profiles_share_the_encode_graph(made: Made) -> None:
    portable, cpu = made.bundle.manifest.profiles
    assert portable.encode.file == cpu.encode.file
    assert portable.step.file != cpu.step.file
    assert cpu.precision == bundle_pb2.PRECISION_INT8


def test_the_portable_graphs_compute_what_torch_does(made: Made) -> None:
    rounded = Captioner(made.captioner.config).eval()
    rounded.load_state_dict(made.captioner.state_dict())
    round_weights(rounded)
    traceable = open_captioner(rounded, vocabulary=made.captioner.config.vocabulary)
    reference, candidate = TorchMachine(traceable), machine(made.bundle, "portable")
    pixels = np.stack(random_pictures(2, (24, 24, 3), np.random.default_rng(3)))
    memory, found = reference.encode({"pixels": pixels}), candidate.encode({"pixels": pixels})
    for name, expected in memory.items():
        np.testing.assert_allclose(found[name], expected, atol=2e-5)
    state = memory
    for _ in range(3):
        inputs = step_inputs(traceable.ports.step, np.full(2, BEGIN), state, memory)
        state, got = reference.step(inputs), candidate.step(inputs)
        for name, expected in state.items():
            np.testing.assert_allclose(got[name], expected, atol=2e-5)
        np.testing.assert_allclose(got["attention"].sum(-1), 1.0, atol=1e-6)


def test_a_picture_is_encoded_the_same_whoever_shares_its_batch(made: Made) -> None:
    pictures = random_pictures(5, (24, 24, 3), np.random.default_rng(4))
    for profile in ("portable", "cpu"):
        opened = machine(made.bundle, profile)
        together, alone = opened.encode({"pixels": np.stack(pictures)}), opened.encode({"pixels": pictures[2][None]})
        for name, array in alone.items():
            np.testing.assert_allclose(together[name][2:3], array, atol=1e-5)
        ports = [port for port in made.bundle.manifest.profiles[0].step.inputs if port.name != "token"]
        rows = {port.name: together[port.name] for port in ports}
        row = {port.name: together[port.name][2:3] for port in ports}
        all_scores = opened.step({**rows, "token": np.full(5, BEGIN)})["scores"]
        np.testing.assert_allclose(
            all_scores[2:3], opened.step({**row, "token": np.full(1, BEGIN)})["scores"], atol=1e-5
        )


def test_the_record_of_parity_covers_the_attention_of_the_map(made: Made) -> None:
    for profile in made.bundle.manifest.profiles:
        assert {"attention", "attention.encoder"} <= {port.port for port in profile.parity.ports}
        assert list(profile.parity.source_lengths) == [CELLS]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("rows", 4, "4 x 3 cells"),
        ("height", 48, "48, 24, 3"),
        ("resampling", 0, "resampling is 0"),
        ("task", 1, "task is"),
    ],
)
def test_a_manifest_that_says_otherwise_than_the_graphs_is_refused(
    made: Made, field: str, value: int, said: str, tmp_path: Path
) -> None:
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(made.bundle.manifest)
    if field == "task":
        manifest.task = bundle_pb2.TASK_TRANSLATION
    else:
        setattr(manifest.image, field, value)
    write_bundle(tmp_path / "squares" / "1", Bundle(manifest, made.bundle.files), check=False)
    with pytest.raises(BundleError, match=said):
        load_bundle(tmp_path / "squares" / "1")


def test_the_card_says_first_what_the_data_forbid(made: Made) -> None:
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(made.bundle.manifest)
    assert "non-commercial" not in render_card(manifest)
    manifest.provenance.licence = "for research and non-commercial use only, like Flickr8k"
    card = render_card(manifest)
    assert "**For research and non-commercial use only**" in card.split("| What")[0]
    assert "3 x 3 cells" in card
    assert "a caption" in card.lower()
    assert "dogs" not in card
    manifest.provenance.known_limits = "It has seen squares alone."
    assert "It has seen squares alone." in render_card(manifest).split("## Limits")[1]


def test_next_states_are_named_after_states(made: Made) -> None:
    ports = open_captioner(made.captioner, vocabulary=made.captioner.config.vocabulary).ports

    def states(side: tuple[Port, ...]) -> list[str]:
        return [port.name.removeprefix(NEXT) for port in side if port.role == "state"]

    assert states(ports.step.inputs) == states(ports.step.outputs) == states(ports.encode.outputs)


def test_to_fetch_what_the_encoder_looked_at_changes_no_digit_of_the_rest(made: Made) -> None:
    model = open_model(load_bundle(made.folder), device="cpu", intra_op_threads=1)
    pixels = np.stack(random_pictures(3, (24, 24, 3), np.random.default_rng(6)))
    plain, asked = (model.encode(pixels, np.full(3, CELLS), encoder_attention=wanted) for wanted in (False, True))
    assert asked.keys() - plain.keys() == {"attention.encoder"}
    for name, array in plain.items():
        np.testing.assert_array_equal(asked[name], array)


@pytest.mark.parametrize("profile", ["portable", "cpu"])
def test_served_captions_have_a_map_for_every_token(made: Made, profile: str) -> None:
    """The attention over the map, and the self-attention within it, in a real server."""
    pixels = random_pictures(1, (24, 24, 3), np.random.default_rng(5))[0]
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    every_head = attention_pb2.AttentionOptions(reduction=attention_pb2.ATTENTION_REDUCTION_NONE)

    async def ask() -> captioning_pb2.CaptionResponse:
        async with serving(models=(made.folder.parents[1],), profile=profile) as served:
            return await captioning_pb2_grpc.CaptioningServiceStub(served.channel).Caption(
                captioning_pb2.CaptionRequest(
                    images=[content.getvalue()],
                    attention=every_head,
                    encoder_attention=attention_pb2.ATTENTION_ENCODING_FLOAT32,
                ),
                timeout=PATIENCE,
            )

    (result,) = asyncio.run(ask()).results
    (hypothesis,) = result.hypotheses
    weights = np.frombuffer(hypothesis.attention.values, "<f4").reshape(hypothesis.attention.shape)
    assert list(hypothesis.attention.axes) == ["layer", "head", "target", "row", "column"]
    assert weights.shape == (1, 1, len(hypothesis.tokens), 3, 3)
    assert len(hypothesis.tokens) > 0
    np.testing.assert_allclose(weights.sum(axis=(3, 4)), 1.0, atol=1e-5)
    within = np.frombuffer(result.encoder_attention.values, "<f4").reshape(result.encoder_attention.shape)
    with torch.no_grad():
        _, _, looked = made.captioner.read(torch.as_tensor(pixels)[None])
    assert looked is not None
    assert within.shape == (1, 1, 3, 3, 3, 3)
    np.testing.assert_allclose(within.reshape(1, 1, CELLS, CELLS), looked[0].numpy(), atol=1e-2)
    if profile == "portable":
        rounded = Captioner(made.captioner.config).eval()
        rounded.load_state_dict(made.captioner.state_dict())
        round_weights(rounded)
        ((expected,),) = search(
            rounded, torch.as_tensor(pixels)[None], torch.tensor([CELLS]), SearchConfig(no_repeat_ngram=3)
        )
        tokens = [token.id for token in hypothesis.tokens]
        assert tokens == list(expected.tokens[: len(tokens)])
        looked = expected.attention[: len(tokens), 0, 0].reshape(-1, 3, 3).numpy()
        np.testing.assert_allclose(weights[0, 0], looked, atol=1e-4)

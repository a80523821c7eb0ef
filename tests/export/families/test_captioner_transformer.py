"""A captioner with the decoder of a Transformer keeps to the one contract: its state grows while it looks at a map."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.export.captioners import CELLS, SMALL, Made, export_untrained
from tests.server.serving import PATIENCE, serving

from regard.export.families.captioner_profiles import round_captioner
from regard.export.parity.greedy import random_pictures
from regard.export.verify import verify
from regard.training.decoding.search import SearchConfig, search
from regard.v1 import attention_pb2, captioning_pb2, captioning_pb2_grpc, decoding_pb2

SIZES = replace(SMALL, decoder="transformer", values=32, layers=2, heads=2, feed_forward=64)
BEAMS, LONGEST = 3, 12


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An untrained captioner, exported once; nobody may write to it."""
    return export_untrained(SIZES, recipe="toy_squares_transformer", root=tmp_path_factory.mktemp("captioner"))


def test_the_bundle_verifies_and_names_a_growing_state(made: Made) -> None:
    said: list[str] = []
    verify(made.folder, said.append)
    assert any("profiles portable and cpu" in line for line in said)
    manifest = made.bundle.manifest
    portable, cpu = manifest.profiles
    assert portable.encode.file == cpu.encode.file
    assert (portable.state_in_place, cpu.state_in_place) == (False, True)
    axes = {port.name: list(port.axes) for port in (*portable.encode.outputs, *portable.step.outputs)}
    assert axes["memory.keys_0"] == ["batch", "2", "32", "9"]
    assert axes["next.state.values_1"] == ["batch", "2", "target", "32"]
    assert axes["attention"] == ["batch", "2", "2", "9"]
    assert [(pair.layer, pair.head) for pair in manifest.attention.alignment_heads] == [(1, 0), (1, 1)]
    for profile in manifest.profiles:
        assert set(axes) == {port.port for port in profile.parity.ports}


@pytest.mark.parametrize("profile", ["portable", "cpu"])
def test_beams_are_served_with_a_map_of_every_head(made: Made, profile: str) -> None:
    pixels = random_pictures(1, (24, 24, 3), np.random.default_rng(5))[0]
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    request = captioning_pb2.CaptionRequest(
        images=[content.getvalue()],
        decoding=decoding_pb2.DecodingOptions(beam_size=BEAMS, n_best=BEAMS, max_length=LONGEST),
        attention=attention_pb2.AttentionOptions(reduction=attention_pb2.ATTENTION_REDUCTION_NONE),
    )

    async def ask() -> captioning_pb2.CaptionResponse:
        async with serving(models=(made.folder.parents[1],), profile=profile) as served:
            return await captioning_pb2_grpc.CaptioningServiceStub(served.channel).Caption(request, timeout=PATIENCE)

    (result,) = asyncio.run(ask()).results
    ((best, *_),) = search(
        round_captioner(made.captioner),
        torch.as_tensor(pixels)[None],
        torch.tensor([CELLS]),
        SearchConfig(beam_size=BEAMS, max_length=LONGEST, no_repeat_ngram=3),
    )
    for rank, hypothesis in enumerate(result.hypotheses):
        weights = np.frombuffer(hypothesis.attention.values, "<f4").reshape(hypothesis.attention.shape)
        count = len(hypothesis.tokens)
        assert count > 0
        assert weights.shape == (2, 2, count, 3, 3)
        np.testing.assert_allclose(weights.sum(axis=(3, 4)), 1.0, atol=1e-5)
        if profile == "portable" and rank == 0:
            assert [token.id for token in hypothesis.tokens] == list(best.tokens[:count])
            looked = best.attention[:count].numpy().reshape(count, 2, 2, 3, 3)
            np.testing.assert_allclose(weights, looked.transpose(1, 2, 0, 3, 4), atol=1e-4)

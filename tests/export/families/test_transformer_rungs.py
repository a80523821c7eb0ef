"""Transformers of both norms, both kinds of positions and both ways to combine them go through the one contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from tests.export.rungs import TEXT, Replies, export_untrained, serve
from tests.export.toy import quiet

from regard.export.bundle.writer import Bundle
from regard.export.families.transformer_profiles import rounded_for_storage
from regard.export.verify import verify
from regard.training.decoding.search import SearchConfig, search_all
from regard.training.learning import checkpoint
from regard.training.models.transformer import Transformer, TransformerConfig

LAYERS, HEADS = 2, 4
PROFILES = ("portable", "cpu", "cuda")
VARIANTS: dict[str, dict[str, Any]] = {
    "pre-sinusoidal-add": {"norm": "pre", "positions": "sinusoidal", "combination": "add"},
    "post-learned-concatenate": {"norm": "post", "positions": "learned", "combination": "concatenate"},
}

every_variant = pytest.mark.parametrize("name", VARIANTS)


class Made(NamedTuple):
    """A Transformer with its bundle, in memory and on disk."""

    run: Path
    bundle: Bundle
    folder: Path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything lies."""
    return tmp_path_factory.mktemp("transformers")


@pytest.fixture(scope="module")
def made(root: Path) -> dict[str, Made]:
    """Every variant; nobody may write to them."""

    def export(name: str) -> Made:
        def untrained(vocabulary: int, output: int) -> Transformer:
            return Transformer(
                TransformerConfig(
                    vocabulary=vocabulary,
                    output=output,
                    dim=64,
                    heads=HEADS,
                    feed_forward=64,
                    encoder_layers=1,
                    decoder_layers=LAYERS,
                    dropout=0.0,
                    **VARIANTS[name],
                )
            )

        return Made(*export_untrained(untrained, name, root, traced_once=True, sureness=1.2, cuda=True))

    return {name: export(name) for name in VARIANTS}


@pytest.fixture(scope="module")
def replies(made: dict[str, Made], root: Path) -> dict[str, dict[str, Replies]]:
    """What a server that holds every bundle says, by profile and variant."""
    return {profile: serve(root / "models", list(made), profile=profile) for profile in PROFILES}


@every_variant
def test_transformers_bundle_holds(name: str, made: dict[str, Made]) -> None:
    verify(made[name].folder, quiet)


@every_variant
def test_transformers_parity_record_covers_every_port_within_its_tolerance(name: str, made: dict[str, Made]) -> None:
    for profile in made[name].bundle.manifest.profiles:
        found = {entry.port: entry.worst_absolute for entry in profile.parity.ports}
        assert found.keys() == {port.name for graph in (profile.encode, profile.step) for port in graph.outputs}
        if profile.name == "portable":
            assert max(found.values()) <= profile.parity.tolerance


@every_variant
def test_served_translations_of_transformers_are_those_of_the_reference(
    name: str, made: dict[str, Made], replies: dict[str, dict[str, Replies]]
) -> None:
    found = checkpoint.load(made[name].run)
    assert isinstance(found.model, Transformer)
    rounded = rounded_for_storage(found.model)
    sources = found.vocabulary.encode_all([TEXT])
    for beams, result in ((1, replies["portable"][name].default), (4, replies["portable"][name].beam)):
        (expected,) = search_all(rounded, sources, SearchConfig(beam_size=beams))
        hypotheses = result.segments[0].hypotheses
        assert [[token.id for token in one.tokens] for one in hypotheses] == [
            [token for token in one.tokens if token != 3] for one in expected
        ]
        np.testing.assert_allclose([one.score for one in hypotheses], [one.score for one in expected], atol=1e-4)


@every_variant
def test_graphs_for_cuda_are_served_with_buffers_in_float16_and_say_the_same(
    name: str, made: dict[str, Made], replies: dict[str, dict[str, Replies]]
) -> None:
    (cuda,) = [profile for profile in made[name].bundle.manifest.profiles if profile.name == "cuda"]
    assert {port.dtype for port in cuda.step.inputs if port.name.startswith("state.")} == {"float16", "int64"}
    for kind in ("default", "beam"):
        half, whole = (getattr(replies[profile][name], kind).segments[0].hypotheses for profile in ("cuda", "portable"))
        assert [token.id for token in half[0].tokens] == [token.id for token in whole[0].tokens]
        assert half[0].score == pytest.approx(whole[0].score, abs=0.05)


@every_variant
@pytest.mark.parametrize("profile", PROFILES)
def test_attention_of_every_layer_and_head_is_served(
    name: str, profile: str, replies: dict[str, dict[str, Replies]]
) -> None:
    answered = replies[profile][name].attention
    assert not isinstance(answered, grpc.aio.AioRpcError)
    (segment,) = answered.segments
    hypothesis = segment.hypotheses[0]
    weights = np.frombuffer(hypothesis.attention.values, "<f4").reshape(hypothesis.attention.shape)
    assert weights.shape == (LAYERS, HEADS, len(hypothesis.tokens), len(segment.source_tokens))
    assert len(hypothesis.tokens) > 0
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)

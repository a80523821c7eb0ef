"""A head that was taught to align is the one that the bundle and its card name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.export.toy import quiet

from regard.export import build as build_module
from regard.export.build import BuildSettings
from regard.export.bundle.card import render_card
from regard.export.errors import BundleError
from regard.export.families.profile import ExportedProfile
from regard.export.provenance import describe_origin
from regard.training.data.toy_data import make_toy
from regard.training.data.vocabulary import Vocabulary
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.models.transformer import Transformer, TransformerConfig
from regard.training.recipes.translation import multi30k_fixed
from regard.v1 import bundle_pb2

# The heads that were taught, and how late they align.
TAUGHT: Mapping[str, tuple[tuple[tuple[int, int], ...], int]] = {
    "taught": (((0, 1),), 0),
    "untaught": ((), 0),
    "late": (((0, 1),), 1),
}


def no_graphs(name: str) -> Callable[..., ExportedProfile]:
    """Return what stands for the making of a profile: what it computes does not matter here."""
    parity = bundle_pb2.ParityRecord(greedy_agreement=1.0)
    profile = bundle_pb2.Profile(name=name, precision=bundle_pb2.PRECISION_INT8, parity=parity)
    return lambda *_: ExportedProfile(profile, {})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Checkpoints of the same small untrained model, said to have a head that was taught to align, or not."""
    root = tmp_path_factory.mktemp("runs")
    corpus = make_toy("copy")
    vocabulary, output = Vocabulary.train(
        [pair.source for pair in corpus.train], [pair.target for pair in corpus.train], size=64
    )
    torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType]  half typed
    sizes = TransformerConfig(
        vocabulary=vocabulary.size,
        output=output,
        dim=64,
        heads=2,
        feed_forward=96,
        encoder_layers=1,
        decoder_layers=2,
        longest=300,
    )
    model = Transformer(sizes).eval()
    found: dict[str, Path] = {}
    for name, (heads, lag) in TAUGHT.items():
        provenance: dict[str, Any] = {"data": {"origin": corpus.origin}}
        if heads:
            terms = {"licence": "non-commercial, like its data", "known_limits": "It has seen captions."}
            # The one says its terms, the other is from before that, and its recipe says them.
            parts = [{"recipe": "better", "epoch": 2, "terms": terms}, {"recipe": "multi30k_fixed", "epoch": 40}]
            teacher = {"recipe": "better", "data": "Multi30k en-de", "average": parts, "terms": terms}
            provenance["start"] = {"recipe": "toy_copy", "epoch": 1, "sha256": "0", "teacher": teacher}
        made = Checkpoint(
            recipe="toy_reverse",
            model=model,
            vocabulary=vocabulary,
            metrics={},
            provenance=provenance,
            alignment_heads=heads,
            alignment_lag=lag,
        )
        found[name] = root / name
        checkpoint.save(found[name], made)
    return found


@pytest.fixture(scope="module")
def manifests(runs: Mapping[str, Path]) -> Mapping[str, bundle_pb2.Bundle]:
    """Their manifests."""
    found: dict[str, bundle_pb2.Bundle] = {}
    for name, run in runs.items():
        with pytest.MonkeyPatch.context() as patch:
            for profile in ("portable", "cpu"):
                patch.setattr(build_module, f"export_{profile}", no_graphs(profile))
            found[name] = build_module.build(run, BuildSettings(), quiet).manifest
    return found


def aligning(manifest: bundle_pb2.Bundle) -> list[tuple[int, int]]:
    return [(head.layer, head.head) for head in manifest.attention.alignment_heads]


def test_a_taught_head_alone_aligns(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    assert aligning(manifests["taught"]) == [(0, 1)]


def test_without_one_all_heads_of_the_last_layer_align(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    assert aligning(manifests["untaught"]) == [(1, 0), (1, 1)]


def test_the_bundle_says_at_which_step_the_head_aligns(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    lags = {name: manifest.attention.alignment_lag for name, manifest in manifests.items()}
    assert lags == {"taught": 0, "untaught": 0, "late": 1}
    assert "in the step that is fed a token" in render_card(manifests["late"])
    assert "in the step that is fed a token" not in render_card(manifests["taught"])


def test_the_card_names_the_heads(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    assert "| Alignments | from layer 0, head 1, counted from 0 |" in render_card(manifests["taught"])
    assert "the mean of 2 heads: layer 1, head 0; layer 1, head 1" in render_card(manifests["untaught"])


def test_the_card_trains_what_a_run_started_from_first(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    taught = render_card(manifests["taught"])
    first = "regard train toy_copy --teacher runs/teacher-of-toy_copy --data DATA --out runs/toy_copy\n"
    then = "regard train toy_reverse --start-from runs/toy_copy --data DATA --out runs/toy_reverse\n"
    assert first + then + "regard export runs/toy_reverse " in taught
    assert "--start-from" not in render_card(manifests["untaught"])


def test_the_card_takes_the_mean_of_what_was_trained(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(manifests["taught"])
    manifest.provenance.mean_of.extend(["toy_reverse/epoch-02", "toy_copy/epoch-40"])
    card = render_card(manifest)
    assert "mean of those of `toy_reverse/epoch-02`, `toy_copy/epoch-40`" in card
    mean = "python -m regard.training.learning.average runs/mean runs/toy_reverse/epoch-02 runs/toy_copy/epoch-40\n"
    assert mean + "regard export runs/mean " in card


def test_the_card_names_who_taught_and_where_to_give_it(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    card = render_card(manifests["taught"])
    assert "translations by the mean of `better/epoch-02` and `multi30k_fixed/epoch-40`, beside people's." in card
    mean = (
        "python -m regard.training.learning.average runs/teacher-of-toy_copy runs/better/epoch-02 "
        "runs/multi30k_fixed/epoch-40\n"
    )
    assert mean + "regard train toy_copy --teacher runs/teacher-of-toy_copy --data DATA" in card
    assert "--teacher" not in render_card(manifests["untaught"])


def test_what_a_teacher_learnt_from_binds_whom_it_taught(manifests: Mapping[str, bundle_pb2.Bundle]) -> None:
    taught, untaught = manifests["taught"].provenance, manifests["untaught"].provenance
    assert taught.training_data == f"{untaught.training_data}; and Multi30k en-de"
    fixed = multi30k_fixed()
    assert taught.licence == f"non-commercial, like its data; {fixed.licence}"
    assert taught.known_limits == f"It has seen captions. {fixed.known_limits}"
    assert taught.known_limits in render_card(manifests["taught"])
    assert (untaught.licence, untaught.known_limits) == ("Apache-2.0", "")


def test_a_run_of_unknown_terms_needs_a_licence(runs: Mapping[str, Path]) -> None:
    made = checkpoint.load(runs["untaught"])
    lost = replace(made, provenance={**made.provenance, "start": {"recipe": "forgotten", "epoch": 1, "sha256": "0"}})
    with pytest.raises(BundleError, match=r"forgotten had a part .* by --licence"):
        describe_origin(runs["untaught"], lost)
    assert describe_origin(runs["untaught"], lost, licence="as agreed").licence == "as agreed"

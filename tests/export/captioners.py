"""Exports captioners that nobody trained, as `regard export` does a trained one; it knows no test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from tests.export.toy import quiet

from regard.export.build import BuildSettings, build
from regard.export.bundle.writer import Bundle, write_bundle
from regard.export.parity.comparison import Grid
from regard.training.data.caption_data import plain
from regard.training.data.toy_pictures import make_squares
from regard.training.data.vocabulary import Vocabulary
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.models.captioner import Captioner, CaptionerConfig

# Pictures of 9 cells; each test adds its kind of decoder.
SMALL = CaptionerConfig(
    vocabulary=78,
    output=78,
    backbone="patches",
    stage="8",
    height=24,
    width=24,
    self_attention=True,
    places=True,
    embedding=64,
    dropout=0.0,
)
CELLS = 9


class Made(NamedTuple):
    """A captioner, its bundle and the folder of that."""

    captioner: Captioner
    bundle: Bundle
    folder: Path


def export_untrained(config: CaptionerConfig, *, recipe: str, root: Path) -> Made:
    """Export a captioner of these sizes, with random weights and the words of the made-up squares."""
    corpus = make_squares(pictures=64)
    vocabulary, output = Vocabulary.train([], [plain(each.captions[0]) for each in corpus.train], size=120)
    torch.manual_seed(2)  # pyright: ignore[reportUnknownMemberType]  half typed
    captioner = Captioner(replace(config, vocabulary=vocabulary.size, output=output)).eval()
    with torch.no_grad():
        for parameter in captioner.parameters():
            parameter.mul_(1.5)
    run = Checkpoint(
        recipe=recipe,
        model=captioner,
        vocabulary=vocabulary,
        metrics={},
        provenance={"data": {"origin": corpus.origin}},
    )
    checkpoint.save(root / "run", run)
    settings = BuildSettings(
        calibration_pictures=8,
        compared_pictures=8,
        # Untrained, it is often undecided, and int8 then decides otherwise.
        least_agreement=0.0,
        grid=Grid(batches=(1, 3), steps=2),
    )
    bundle = build(root / "run", settings, quiet)
    folder = root / "models" / "captions" / "1"
    write_bundle(folder, bundle)
    return Made(captioner, bundle, folder)

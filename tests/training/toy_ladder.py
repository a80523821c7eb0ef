"""A ladder of untrained rungs that fit into a second, and a data set as small: for tests of what is made of them."""

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from regard.training.data.vocabulary import Vocabulary
from regard.training.families import TrainedModel
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.models.rnn import ContextName, Rnn, RnnConfig
from regard.training.models.transformer import Transformer, TransformerConfig

ENGLISH = ["A man plays.", "Two dogs run on the grass.", "A girl is in the park.", "Two men sit.", "A dog plays here."]
GERMAN = [
    "Ein Mann spielt.",
    "Zwei Hunde rennen auf dem Gras.",
    "Ein Mädchen ist im Park.",
    "Zwei Männer sitzen.",
    "Ein Hund spielt hier.",
]
ALIGNMENTS = "ein Mann spielt\ta man plays\t0-0 1-1 2-2\nzwei Hunde\ttwo dogs\t0-0 1?1\n"
RECURRENT = ("multi30k_plain", "multi30k_fixed", "multi30k_attention")
EPOCHS = 3
_CONTEXTS: Mapping[str, ContextName] = {
    "multi30k_plain": "none",
    "multi30k_fixed": "fixed",
    "multi30k_attention": "attention",
}


def write_data(folder: Path) -> Path:
    """Write Multi30k in small, and gold alignments; return the folder."""
    sets = folder / "multi30k"
    sets.mkdir(parents=True)
    for name in ("train", "val", "test_2016_flickr", "test_2017_flickr"):
        for side, lines in (("en", ENGLISH), ("de", GERMAN)):
            (sets / f"{name}.{side}.gz").write_bytes(gzip.compress("\n".join(lines * 4).encode()))
    alignments = folder / "alignments" / "bicici-de-en" / "test.tsv"
    alignments.parent.mkdir(parents=True)
    alignments.write_text(ALIGNMENTS, encoding="utf-8")
    return folder


def write_rungs(runs: Path, recipes: Sequence[str] = RECURRENT, *, english: Sequence[str] = ENGLISH) -> Path:
    """Write checkpoints and logs of rungs; return the folder of the runs. english is what the vocabulary is of."""
    vocabulary, output = Vocabulary.train(list(english) * 4, GERMAN * 4, size=120, lower=True)
    for number, recipe in enumerate(recipes):
        torch.manual_seed(number)  # pyright: ignore[reportUnknownMemberType]  torch types it in part
        found = Checkpoint(
            recipe=recipe,
            model=_model(recipe, vocabulary.size, output).eval(),
            vocabulary=vocabulary,
            metrics={"epoch": EPOCHS - 1},
            provenance={"fit": {"seed": 1, "epochs": EPOCHS}},
        )
        checkpoint.save(runs / recipe / "best", found)
        log = runs / recipe / "log" / "version_0"
        log.mkdir(parents=True)
        with (log / "metrics.csv").open("w", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(("step", "tokens_per_second", "valid_bleu", "valid_loss"))
            writer.writerows((epoch * 10, 100.0 * epoch, 2.0 * epoch, 5.0 - epoch) for epoch in range(1, EPOCHS + 1))
    return runs


def _model(recipe: str, vocabulary: int, output: int) -> TrainedModel:
    if recipe == "multi30k_transformer":
        return Transformer(
            TransformerConfig(
                vocabulary=vocabulary,
                output=output,
                dim=8,
                heads=2,
                feed_forward=8,
                encoder_layers=1,
                decoder_layers=1,
            )
        )
    sizes = RnnConfig(vocabulary=vocabulary, output=output, embedding=8, encoder=8, decoder=8, attention=8)
    return Rnn(replace(sizes, context=_CONTEXTS[recipe]))

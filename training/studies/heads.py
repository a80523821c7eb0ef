"""Shows how well each head of attention aligns, by learnt links and by gold ones.

Run it by `python -m regard.training.studies.heads RUN`.
It does not know how a head is taught; it is what one looks at to choose the head.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.scoring.alignments import Links, alignment_error_rate
from regard.training.data.translation_data import Batch, TranslationData, collate
from regard.training.data.vocabulary import PAD
from regard.training.decoding.alignment import AlignedPair, Heads, align_by, average, read_alignments, word_pieces
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.learning.guidance import Guidance, GuidanceConfig, learn_guidance
from regard.training.learning.recipe import GoldAlignments, Recipe
from regard.training.models.protocol import SequenceModel
from regard.training.recipes.catalogue import RECIPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """How often a head, or the mean of several, looks most at what the token translates; percent of linked tokens."""

    heads: Heads
    now: float  # in the step that predicts the token
    later: float  # in the next step, which is fed the token: Chen et al. 2020, section 3.2


@torch.inference_mode()
def agreement(
    model: SequenceModel[Any, Any], guide: Guidance, batches: Sequence[Batch], choices: Sequence[Heads]
) -> tuple[list[Looks], float]:
    """Return how each choice of heads agrees with the links of batches, and the share of tokens that have any."""
    right = torch.zeros(len(choices), 2)
    tokens = linked = 0
    for batch in batches:
        links = guide.links(batch)
        _, attention = model.forward(batch.source, batch.source_length, batch.target_in)
        tokens += int((batch.target_out != PAD).sum()) - len(batch.target_out)  # an end has no counterpart
        linked += int(links.any(dim=2).sum())
        for place, heads in enumerate(choices):
            best = average(attention, heads).argmax(dim=2, keepdim=True)
            right[place, 0] += links.gather(2, best).sum()
            right[place, 1] += links[:, :-1].gather(2, best[:, 1:]).sum()
    found = [
        Looks(heads=heads, now=100 * float(now) / max(linked, 1), later=100 * float(later) / max(linked, 1))
        for heads, (now, later) in zip(choices, right, strict=True)
    ]
    return found, 100 * linked / max(tokens, 1)


def lexicon_links(found: Checkpoint, guide: Guidance, pair: AlignedPair, language: str) -> Links:
    """Return which words of a pair the lexicon links, by their pieces."""
    source, source_words = word_pieces(found.vocabulary, pair.source)
    target, target_words = word_pieces(found.vocabulary, pair.target)
    source[-1] = found.vocabulary.end(language)
    links = guide.links(collate([(source, target)]))[0]
    return frozenset(
        (source_word, target_word)
        for row, target_word in enumerate(target_words)
        for column, source_word in enumerate(source_words)
        if source_word is not None and target_word is not None and links[row, column]
    )


def lexicon_error_rate(found: Checkpoint, guide: Guidance, gold: GoldAlignments, data: Path) -> float:
    """Return the error rate in percent of the lexicon's links."""
    pairs = read_alignments(data / gold.file, turned=gold.turned)
    return 100 * alignment_error_rate([lexicon_links(found, guide, pair, gold.language) for pair in pairs], pairs)


def error_rates(
    found: Checkpoint, gold: GoldAlignments, data: Path, choices: Sequence[Heads], *, lag: int
) -> list[float]:
    """Return the error rate in percent of each choice of heads, `lag` steps after the one that predicts a token."""
    pairs = read_alignments(data / gold.file, turned=gold.turned)
    looked = [align_by(found.model, found.vocabulary, pair, choices, language=gold.language, lag=lag) for pair in pairs]
    return [100 * alignment_error_rate(list(links), pairs) for links in zip(*looked, strict=True)]


def report(run: Path, data: Path, *, every: int) -> str:
    """Return the table in Markdown for a run whose recipe is known; of validation batches, one of `every` is taken."""
    found = checkpoint.load(checkpoint.find(run))
    recipe = RECIPES[found.recipe]()
    layers, heads = found.model.attention_axes
    if not layers or not isinstance(recipe, Recipe):
        raise ValueError(f"{run} does not hold a model that looks at a text.")
    single: list[Heads] = [((layer, head),) for layer in range(layers) for head in range(heads)]
    choices: list[Heads] = [(), *single]
    batches = TranslationData(
        recipe.read(data), found.vocabulary, recipe.batches, output=found.model.config.output, seed=recipe.fit.seed
    )
    guide = learn_guidance(
        batches.examples, recipe.guidance or GuidanceConfig(layer=0, head=0), vocabulary=found.vocabulary.size
    )
    valid = batches.valid()
    looks, share = agreement(found.model, guide, [valid[place] for place in range(0, len(valid), every)], choices)
    rates = [[error_rates(found, gold, data, choices, lag=lag) for lag in (0, 1)] for gold in recipe.alignments]
    names = ["mean of all", *(f"layer {layer}, head {head}" for ((layer, head),) in single)]
    learnt = "".join(f" {lexicon_error_rate(found, guide, gold, data):.1f} |" for gold in recipe.alignments)
    lines = [
        "| now / one step later | agrees with links |" + "".join(f" AER {gold.file} |" for gold in recipe.alignments),
        "|---|---|" + "---|" * len(rates),
        f"| lexicon | links {share:.1f} % of tokens |{learnt}",
    ]
    for place, (name, one) in enumerate(zip(names, looks, strict=True)):
        taught = " (taught)" * (one.heads == found.alignment_heads != ())
        cells = "".join(f" {now[place]:.1f} / {later[place]:.1f} |" for now, later in rates)
        lines.append(f"| {name}{taught} | {one.now:.1f} / {one.later:.1f} |{cells}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m regard.training.studies.heads", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("run", type=Path, help="a run, or a checkpoint")
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: $REGARD_DATA)")
    parser.add_argument("--every", type=int, default=1, help="of how many validation batches to take one (default: 1)")
    args = parser.parse_args(argv)
    try:
        table = report(args.run, args.data or Path(os.environ.get("REGARD_DATA", "")), every=max(args.every, 1))
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(table + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

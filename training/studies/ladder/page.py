"""Writes the page of the ladder from its figures."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from regard.atomic import write_text
from regard.training.studies.ladder.lengths import Estimate
from regard.training.studies.ladder.report import LadderReport, RungReport
from regard.training.studies.ladder.rungs import RUNGS, Rung, rung_of
from regard.training.studies.ladder.tables import cost_table, length_table, parts_table, published_table, scores_table

_LENGTHS = """\
Sentences of Multi30k are short, so long sources are made by joining 2 to 4 neighbours of the test set, always the same
ones. On the left, sources stand by their length, joined or not; the few that are longer than all its ranges are left
out. On the right the content is the same at every point: the whole test set, read one, two, three and four sentences at
a time, so that nothing but length changes. In training every rung has seen joined sentences: a pair goes on with the
next one with probability 0.1, three in a row at most, so that four at a time are longer than almost anything a rung has
learnt from. Bands are the middle 95 % of what resampled sentences give.
"""

_COSTS = """\
Tokens are those of targets. Processor time: whole updates on the same batches, rungs in turn, best of three rounds.
The log is that of the training itself, whose machine had other work too, so it says less; minutes are the tokens seen
at that pace, without validation. chrF: Popović 2015.
"""

_ALIGNMENTS = """\
AER (alignment error rate, Och and Ney 2003) compares where a rung looks with links set by people: {alignments}. This is
speech in parliament, far from captions of pictures: take it to compare rungs that look, not for what they reach on
their own ground. A rung that looks at nothing links nothing.
"""

_LOOKS = """\
Test sentences translated by the rung with additive attention. A row is a German word and shows where the network looked
to write it; `end` is the end of the sentence. They were chosen by eye, so these are clear cases and not typical ones;
`regard ladder --candidates 10` lists what they were chosen from.
"""

_CURVES = """\
Cross-entropy with label smoothing on the validation sentences after each epoch, with averaged weights.
"""

_LIMITS = """\
- One seed a rung: intervals tell what other test sentences would change, not what another training run would.
- Small data (29,000 captions) and small networks, trained on one processor core: a difference of a point or two between
  rungs need not hold for larger ones.
- Joined captions are long, but no word of one depends on another: real long sentences ask for more.
- Models learnt from Multi30k are for research, non-commercial, and are not part of this repository.
"""


class Shown(NamedTuple):
    """A picture of attention that was drawn."""

    kind: str
    file: str  # as the page names it
    note: str


def page(report: LadderReport, *, images: str, figures: str, shown: Sequence[Shown]) -> str:
    """Return the page as Markdown; images is the folder of the plots and figures the JSON, as the page names them."""
    setting = report.setting
    first = next(iter(report.test_sets))
    looks = [f"**{each.kind.capitalize()}.** {each.note}\n\n![attention, {each.kind}]({each.file})" for each in shown]
    plot = f"{images}/ladder-"
    parts = [
        "# The ladder: what attention buys",
        "From a network that squeezes a sentence into one vector to the Transformer, rung by rung, on the same data: "
        f"{setting['data']}. Same training pairs, same vocabulary, same batches, same search. The recurrent rungs have "
        "the same sizes and differ in what the decoder is given of the source.",
        f"This page, its pictures and [{figures}]({figures}) are made by one command; the page and its pictures alone "
        f"by `regard ladder --from-json`:\n\n    {setting['command']}",
        "## The rungs",
        *(_rung(rung, number) for number, rung in enumerate(RUNGS, start=1)),
        _missing(report),
        "## What each step buys",
        f"![BLEU of each rung on the test sets]({plot}steps.png)",
        _gains(report.rungs, first),
        f"sacreBLEU (Post 2018), capitals taken for small letters, {report.search}:",
        scores_table(report),
        "Beside published figures, measured as papers on Multi30k do (one reference, lowercased, punctuation "
        "normalised, cut by Moses' rules):",
        published_table(report),
        "## Does it hold up with length?",
        f"![BLEU by source length, and of the same text read in longer pieces]({plot}length.png)",
        _fall(report),
        _LENGTHS,
        length_table(report),
        parts_table(report),
        "## What it costs",
        cost_table(report),
        f"BLEU and chrF on {first}.\n{_COSTS}",
        _ALIGNMENTS.format(alignments=report.alignments),
        *(["## What it looks at", _LOOKS, *looks] if looks else []),
        *(["## How they learn", f"![validation while learning]({plot}curves.png)", _CURVES] * _has_curves(report)),
        "## How it was measured, and what it does not say",
        f"{_method(report)}\n{_LIMITS}",
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def write_page(path: Path, text: str) -> None:
    """Write the page; it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def _rung(rung: Rung, number: int) -> str:
    name = rung.name[0].upper() + rung.name[1:]
    return f"**{number}. {name}** (`{rung.recipe}`). {rung.text}\n\n$${rung.equation}$$\n\n{rung.source}."


def _missing(report: LadderReport) -> str:
    if not report.missing:
        return ""
    names = ", ".join(rung_of(recipe).name for recipe in report.missing)
    return f"Not trained yet, and so not in what follows: **{names}**. Trained, they join by themselves."


def _gains(rungs: Sequence[RungReport], test: str) -> str:
    if len(rungs) < 2:
        return ""
    return (
        "\n".join(_gain(before, rung, test) for before, rung in pairwise(rungs))
        + f"\n\nIn brackets the middle 95 % of the differences when the same sentences of {test} are drawn again and "
        "again (paired bootstrap, Koehn 2004)."
    )


def _gain(before: RungReport, rung: RungReport, test: str) -> str:
    gain = rung.gain
    if gain is None:
        return ""
    chance = ", which chance alone may explain" if gain.low <= 0 <= gain.high else ""
    names = f"From {rung_of(before.recipe).name} to {rung_of(rung.recipe).name}"
    return f"- {names}: **{_signed(gain.value)} BLEU** ({_signed(gain.low)} to {_signed(gain.high)}){chance}."


def _fall(report: LadderReport) -> str:
    alone, together = report.rungs[0].by_parts[0], report.rungs[0].by_parts[-1]
    falls = [
        f"- {rung_of(rung.recipe).name}: from {rung.by_parts[0].bleu.value:.1f} to {_of(rung.by_parts[-1].bleu)}, "
        f"**{_signed(rung.by_parts[-1].bleu.value - rung.by_parts[0].bleu.value)} BLEU**"
        for rung in report.rungs
    ]
    return (
        f"The same text read {together.label} sentences at a time instead of one, about {together.words:.0f} words "
        f"instead of {alone.words:.0f}:\n\n" + "\n".join(falls)
    )


def _of(estimate: Estimate) -> str:
    return f"{estimate.value:.1f} ({estimate.low:.1f} to {estimate.high:.1f})"


def _has_curves(report: LadderReport) -> bool:
    return any(rung.loss_curve for rung in report.rungs)


def _method(report: LadderReport) -> str:
    setting = report.setting
    sizes = ", ".join(f"{name} ({count:,} sentences)" for name, count in report.test_sets.items())
    signatures = dict.fromkeys(
        each.signature for rung in report.rungs for each in rung.figures if each.metric != "exact"
    )
    weights = ", ".join(f"`{rung.recipe}` {rung.digest[:12]} (seed {rung.seed})" for rung in report.rungs)
    lines = [
        f"Measured {setting['date']} on {setting['machine']}; {setting['versions']}.",
        f"Test sets: {sizes}, none of them seen in training. Search: {report.search}.",
        "Recipes: `training/recipes/translation.py`.",
        f"Weights of the best validation epoch, by their SHA-256: {weights}.",
        f"Signatures: {', '.join(f'`{signature}`' for signature in signatures)}.",
        "To make a rung again: `regard train RECIPE --data DIR --out runs/RECIPE`; all that are missing: `--train`.",
    ]
    short = [rung for rung in report.rungs if rung.epochs < rung.planned_epochs]
    if short:
        names = ", ".join(f"{rung_of(rung.recipe).name} {rung.epochs} of {rung.planned_epochs}" for rung in short)
        lines.append(f"Fewer epochs than planned, stopped early or still learning: {names}.")
    return "\n".join(f"- {line}" for line in lines)


def _signed(value: float) -> str:
    return f"{value:+.1f}"

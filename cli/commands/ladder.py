"""Measures the rungs from no attention to the Transformer and writes their page; the training folder measures.

Does not know how anything is measured, nor how a picture of attention is drawn.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from regard.cli.failure import OK, USAGE, CommandFailed
from regard.cli.speech import complain, say

if TYPE_CHECKING:
    from regard.training.decoding.search import SearchConfig
    from regard.training.studies.ladder.measurement import MeasuredRung
    from regard.training.studies.ladder.report import LadderReport, Picture

EXTRA = "train"

_EPILOG = """\
examples:
  regard ladder --runs runs --data DATA
  regard ladder --runs runs --data DATA --train
  regard ladder --from-json docs/ladder.json

--runs holds RECIPE/best of each rung, as `regard train RECIPE --out RUNS/RECIPE` leaves it. Translations are kept there
beside it, so that a command that was stopped goes on where it was. Rungs without attention, with a fixed context and
with additive attention are needed; the Transformer joins where it is there.
"""
_ALIGNMENTS = "alignments/bicici-de-en/test.tsv"
_EVERY_SECONDS = 15.0
_BEAM = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    parser.epilog = _EPILOG
    parser.add_argument("--runs", type=Path, metavar="DIR", help="folder of the training runs")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets (default: $REGARD_DATA)")
    parser.add_argument(
        "--train", action="store_true", help="first train the rungs that are missing, which takes hours"
    )
    parser.add_argument("--partial", action="store_true", help="go on without the rungs that are missing")
    parser.add_argument(
        "--docs", type=Path, default=Path("docs/ladder.md"), metavar="FILE.md", help="the page (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures (default: beside the page)")
    parser.add_argument("--from-json", type=Path, metavar="FILE", help="only draw and write again what FILE holds")
    parser.add_argument("--candidates", type=int, metavar="N", help="only list translations whose attention shows much")
    parser.add_argument("--beam", type=int, default=_BEAM, help="beam size (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="processor threads (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    if (args.runs is None) == (args.from_json is None):
        raise CommandFailed("give either --runs DIR or --from-json FILE (see `regard ladder --help`)", USAGE)
    try:
        if args.from_json is not None:
            from regard.training.studies.ladder.report import read_report

            report = read_report(args.from_json)
            json_file = args.json or args.from_json
        else:
            json_file = args.json or args.docs.with_suffix(".json")
            measured = _measure(args)
            if measured is None:
                return OK
            report = measured
    except (FileNotFoundError, ValueError) as error:
        raise CommandFailed(_sentence(error)) from error
    for path in _write(report, args.docs, json_file):
        say(str(path))
    return OK


def _measure(args: argparse.Namespace) -> LadderReport | None:
    """Measure, or list candidates and return None."""
    import torch

    from regard.training.data.corpora import read_multi30k
    from regard.training.decoding.alignment import read_alignments
    from regard.training.decoding.search import SearchConfig
    from regard.training.studies.ladder.measurement import climb, measure, pictures, test_sets
    from regard.training.studies.ladder.report import LadderReport
    from regard.training.studies.ladder.setting import setting

    data = args.data or Path(os.environ.get("REGARD_DATA", ""))
    if data == Path():
        raise ValueError("the ladder needs Multi30k: give the folder of the data sets by --data or REGARD_DATA")
    search = SearchConfig(beam_size=args.beam)
    # Before hours of work, and not after them.
    corpus = read_multi30k(data)
    gold = read_alignments(data / _ALIGNMENTS, turned=True)
    torch.set_num_threads(args.threads)
    missing = _make_missing(args, data)
    climbed = climb(args.runs, [recipe for recipe in _recipes() if recipe not in missing])
    if args.candidates is not None:
        _list_candidates(climbed, [pair.source for pair in corpus.test], search, args.candidates)
        return None
    with_progress = _Progress(sys.stderr)
    rungs = measure(climbed, corpus, gold, search, with_progress.tell)
    with_progress.tell("attention of the chosen sentences")
    attention_pictures = pictures(climbed, search)
    with_progress.close()
    return LadderReport(
        rungs=rungs,
        missing=tuple(missing),
        pictures=attention_pictures,
        test_sets={name: len(pairs) for name, pairs in test_sets(corpus).items()},
        alignments=f"{len(gold)} pairs of Europarl, Biçici's German-English alignments turned around",
        search=f"beam {search.beam_size}, length penalty {search.length_penalty:g}",
        setting={
            **setting(),
            "data": corpus.origin,
            # With names in place of folders, which differ from machine to machine.
            "command": "regard ladder --runs runs --data $REGARD_DATA"
            + f" --beam {args.beam}" * (args.beam != _BEAM)
            + " --partial" * args.partial,
        },
    )


def _recipes() -> list[str]:
    from regard.training.studies.ladder.rungs import RUNGS

    return [rung.recipe for rung in RUNGS]


def _make_missing(args: argparse.Namespace, data: Path) -> list[str]:
    """Train what is missing if that is wanted; return what is still missing, which the page can do without."""
    from regard.training.studies.ladder.measurement import checkpoint_folder, missing_from
    from regard.training.studies.ladder.rungs import rung_of

    missing = missing_from(args.runs)
    if args.train and missing:
        from regard.training.learning.fit import Hardware
        from regard.training.recipes.catalogue import TRANSLATION_RECIPES
        from regard.training.runs.translation import train

        for recipe in missing:
            complain(f"training {recipe}, {missing.index(recipe) + 1} of {len(missing)}")
            train(
                TRANSLATION_RECIPES[recipe](),
                data=data,
                out=args.runs / recipe,
                hardware=Hardware(threads=args.threads),
            )
        missing = missing_from(args.runs)
    lacking = [recipe for recipe in missing if rung_of(recipe).required]
    if args.partial and len(missing) < len(_recipes()):
        return missing
    if lacking:
        places = ", ".join(f"{rung_of(recipe).name} in {checkpoint_folder(args.runs, recipe)}" for recipe in lacking)
        first = lacking[0]
        raise ValueError(
            f"there is no checkpoint of {places}; make each with `regard train {first} --data {data} "
            f"--out {args.runs / first}`, or all by adding --train, or do without by --partial"
        )
    return missing


def _list_candidates(climbed: Sequence[MeasuredRung], sources: Sequence[str], search: SearchConfig, most: int) -> None:
    from regard.training.studies.ladder.attention import KINDS, as_text, candidates, look

    attentive = next((one for one in climbed if one.recipe.name == "multi30k_attention"), None)
    if attentive is None:
        raise ValueError("candidates are of multi30k_attention, which is missing")
    progress = _Progress(sys.stderr)
    progress.tell(f"translating {len(sources)} sentences")
    looks = look(attentive.found, sources, search)
    progress.close()
    for kind in KINDS:
        say(f"{kind}:")
        for score, place, region in candidates(looks, kind, most):
            say(f"  {score:.2f}  {sources[place]}\n        {as_text(looks[place])}\n        {region}")


def _write(report: LadderReport, docs: Path, json_file: Path) -> list[Path]:
    from regard.training.studies.ladder.figures import draw_figures
    from regard.training.studies.ladder.page import Shown, page, write_page
    from regard.training.studies.ladder.report import write_report

    images = docs.parent / "images"
    write_report(json_file, report)
    written = [json_file, *draw_figures(images, report)]
    shown: list[Shown] = []
    for picture in report.pictures:
        path = images / f"ladder-{picture.kind.replace(' ', '-')}.png"
        written += _draw(picture, path)
        shown.append(Shown(picture.kind, f"{images.name}/{path.name}", picture.note))
    write_page(docs, page(report, images=images.name, figures=json_file.name, shown=shown))
    return [*written, docs]


def _draw(picture: Picture, path: Path) -> tuple[Path, ...]:
    import numpy as np

    from regard.client.drawing.panels import Panel, label
    from regard.client.drawing.pictures import write_attention

    panel = Panel(
        rows=tuple(label(word) for word in picture.target),
        columns=tuple(label(word) for word in picture.source),
        weights=np.array(picture.weights, dtype=np.float32),
        end_weights=np.array(picture.end_weights, dtype=np.float32),
    )
    return write_attention(
        path, [panel], title=picture.kind.capitalize(), caption="English → German, additive attention"
    )


def _sentence(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename} is missing"
    return str(error)


class _Progress:
    """Tells on one line of a terminal what is being done, or now and then on a line of its own elsewhere."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._clock = clock
        self._told = -float("inf")
        self._width = 0

    def tell(self, what: str) -> None:
        """This is being done now."""
        if self._terminal:
            self._stream.write(f"\r{what.ljust(self._width)}")
            self._width = len(what)
        elif self._clock() - self._told >= _EVERY_SECONDS:
            self._stream.write(f"{what}\n")
            self._told = self._clock()
        self._stream.flush()

    def close(self) -> None:
        """Leave the line empty."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._width = 0

"""Measures what the search's fast paths for few rows save against its array path, on a bundle that reads text.

`python -m regard.benches.search_paths models/en-xx/1`. Both paths decode the same sentences in one process with one
thread. Blocks of both alternate and only neighbours are compared, in processor time, since another load on the machine
changes from second to second; the ratio is the median of all pairs. `docs/engine.md` holds the figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.contract.bundle import load_bundle
from regard.contract.errors import BundleError
from regard.loadtest.base.environment import command_line, environment
from regard.server.engine.engine_settings import EngineSettings
from regard.server.engine.pool import Pool
from regard.server.engine.segment import PoolKey, Segment
from regard.server.errors import StartupError
from regard.server.request import CallContext, DecodeRequest, SearchOptions
from regard.server.runtime.session import OpenModel, open_model
from regard.server.search.searches import slots_needed
from regard.server.text.tokenization import TextPipeline

# (sentences at a time, beam)
SHAPES = ((1, 1), (2, 1), (4, 1), (1, 4), (2, 4), (3, 4), (4, 4))
SENTENCES = (
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Two dogs run across the green grass near a lake.",
    "The children are playing football in the street today.",
    "I would like to know where the next train to the city goes.",
)


class Figure(NamedTuple):
    """What a step takes for so many sentences at a time; microseconds of processor time.

    Attributes:
        array, few: medians of the blocks of either path.
        ratio: median of array / few over neighbouring blocks; above 1 the fast path pays.
        lower, upper: quartiles of these ratios.
    """

    sentences: int
    beam: int
    array: float
    few: float
    ratio: float
    lower: float
    upper: float


class SearchPaths:
    """A model with one pool for each path."""

    def __init__(self, directory: Path) -> None:
        bundle = load_bundle(directory)
        if bundle.image is not None:
            raise StartupError(f"{directory} reads pictures; this benchmark needs a bundle that reads text")
        end = next(iter(bundle.target_end_ids.values()), None)
        pipeline = TextPipeline(bundle)
        self.name = f"{bundle.key.name}/{bundle.key.version}, profile {bundle.profile}"
        self._sources = [pipeline.prepare(text, split=False, end_id=end)[0].ids for text in SENTENCES]
        self._model: OpenModel = open_model(bundle, device="cpu", intra_op_threads=1)
        self._width = EngineSettings().width(max(map(len, self._sources)))
        shortlist = self._model.facts.shortlist(self._request(0, 1))
        self._key = PoolKey(bundle.key, self._width, shortlist)
        capacity = max(sentences * beam for sentences, beam in SHAPES)
        self._pools = [
            Pool(
                self._model,
                capacity=capacity,
                width=self._width,
                shortlist=shortlist,
                few_greedy_rows=most,
                few_hypotheses=most,
            )
            for most in (0, capacity)
        ]

    def measure(self, sentences: int, beam: int, *, blocks: int) -> Figure:
        """Decode so many pairs of blocks and return their figure."""
        seconds: tuple[list[float], list[float]] = ([], [])
        for path in (0, 1):
            self._block(path, sentences, beam)  # The first one allocates memory.
        for number in range(blocks):
            # Who goes first alternates: what the other left in the caches is then the same for both.
            for path in (0, 1) if number % 2 else (1, 0):
                seconds[path].append(self._block(path, sentences, beam))
        ratios = [array / few for array, few in zip(*seconds, strict=True)]
        lower, median, upper = np.quantile(ratios, (0.25, 0.5, 0.75)).tolist()
        array, few = (1e6 * statistics.median(path) for path in seconds)
        return Figure(sentences, beam, array, few, median, lower, upper)

    def _request(self, sentence: int, beam: int) -> DecodeRequest:
        return DecodeRequest(
            source=np.array(self._sources[sentence], dtype=np.int64),
            search=SearchOptions(beam_size=beam, n_best=1, length_penalty=1.0, min_length=0, max_length=256),
            keep_attention=True,
            context=CallContext(request_id="bench"),
        )

    def _block(self, path: int, sentences: int, beam: int) -> float:
        """Decode the first so many sentences together; seconds of processor time of a step."""
        segments = [
            Segment(pool=self._key, rows=slots_needed(asked), request=asked, deliver=lambda _: None, submitted=0.0)
            for asked in (self._request(sentence, beam) for sentence in range(sentences))
        ]
        source = np.full((sentences, self._width), self._model.facts.pad_id, dtype=np.int64)
        length = np.array([len(segment.request.source) for segment in segments], dtype=np.int64)
        for row, segment in enumerate(segments):
            source[row, : length[row]] = segment.request.source
        encoded, pool, steps = self._model.encode(source, length), self._pools[path], 0
        began = time.process_time()
        pool.admit(segments, encoded, now=0.0, encode_seconds=0.0)
        while pool.rows:
            pool.step()
            steps += 1
        return (time.process_time() - began) / steps


def as_table(figures: Sequence[Figure]) -> str:
    """Return figures as a Markdown table."""
    lines = ["| sentences | beam | arrays, us a step | few rows, us a step | arrays / few rows (quartiles) |"]
    lines.append("|---:|---:|---:|---:|---|")
    lines.extend(
        f"| {each.sentences} | {each.beam} | {each.array:.0f} | {each.few:.0f} | "
        f"{each.ratio:.3f} ({each.lower:.3f} to {each.upper:.3f}) |"
        for each in figures
    )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every shape and print the table."""
    parser = argparse.ArgumentParser(prog="python -m regard.benches.search_paths", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder NAME/VERSION of the bundle to decode with")
    parser.add_argument("--blocks", type=int, default=60, help="pairs of blocks of each shape (60)")
    options = parser.parse_args(arguments)
    if options.blocks < 1:
        parser.error("--blocks must be at least 1")
    try:
        paths = SearchPaths(options.bundle)
    except (StartupError, BundleError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    where = environment(command_line())
    sys.stdout.write(f"{where['processor']}, {where['date'][:10]}, {paths.name}, one thread\n\n")
    sys.stdout.write(as_table([paths.measure(*shape, blocks=options.blocks) for shape in SHAPES]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

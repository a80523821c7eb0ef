"""Says what `regard bench engine` measures: which settings, over which sentences.

It does not know how anything is measured.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Clock = Literal["wall", "processor"]
SECONDS = {"wall": "seconds", "processor": "processor_seconds"}


class Setting(NamedTuple):
    """One cell of the table.

    Attributes:
        precision: of the products, "int8" or "float32".
        workers: threads that decode, each with rows of its own.
        beams: hypotheses of a search.
        rows: sentences that each worker decodes at a time.
    """

    precision: str
    workers: int
    beams: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure.

    Attributes:
        settings: in the order in which they are measured.
        pairs: blocks of each side for each setting.
        block_seconds: that a block takes at least on the faster side.
        length: target tokens of every sentence.
        clock: what throughput is counted by. "wall" is what a user waits; "processor", the time that a process was
            given, is steadier for one worker where others use the machine, and does not see waiting.
    """

    settings: tuple[Setting, ...]
    pairs: int
    block_seconds: float
    length: int
    clock: Clock = "wall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentences:
    """Sources of one length.

    Attributes:
        sources: ids, end of sentence included.
        tokens: of each.
        origin: what they are.
    """

    sources: tuple[tuple[int, ...], ...]
    tokens: int
    origin: str


def all_settings(
    *, precisions: Sequence[str], workers: Sequence[int], beams: Sequence[int], rows: Sequence[int]
) -> tuple[Setting, ...]:
    """Every combination, but beams with several workers, which says nothing new."""
    return tuple(
        Setting(precision, count, width, size)
        for count in workers
        for width in beams
        if width == 1 or count == min(workers)
        for precision in precisions
        for size in rows
    )


def of_one_length(sources: Sequence[Sequence[int]], *, tokens: int | None, origin: str) -> Sentences:
    """Those sources that have so many tokens; of their median length if none is named.

    Raises ValueError if there is none.
    """
    lengths = [len(source) for source in sources if source]
    if not lengths:
        raise ValueError(f"{origin} has no sentence")
    wanted = statistics.median_low(lengths) if tokens is None else tokens
    found = tuple(dict.fromkeys(tuple(source) for source in sources if len(source) == wanted))
    if not found:
        raise ValueError(f"{origin} has no sentence of {wanted} tokens; lengths are {min(lengths)} to {max(lengths)}")
    return Sentences(sources=found, tokens=wanted, origin=origin)


def fill(sources: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """So many of the sources, from the first again where there are not enough."""
    return [list(sources[place % len(sources)]) for place in range(count)]

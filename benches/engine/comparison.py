"""Has two decoders decode the same blocks of sentences in turn, and compares their throughput.

It does not know what the decoders are, nor how figures are shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from regard.benches.engine.paired_ratios import Ratio, paired_ratio, turns
from regard.benches.engine.plan import SECONDS, Plan, Sentences, Setting, fill

COMPARED_SENTENCES = 256
_MOST_SENTENCES = 8192


class Decoding(Protocol):
    """A decoder that takes the commands of `regard.benches.engine.decode_lines`."""

    def ask(self, do: str, **command: Any) -> dict[str, Any]:
        """Answer a command."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a setting came to.

    Attributes:
        ratio: our throughput by theirs.
        ours, theirs: target tokens per second, median of the blocks.
        sentences: of a block.
    """

    setting: Setting
    ratio: Ratio
    ours: float
    theirs: float
    sentences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far two decoders say the same, greedily.

    Attributes:
        sentences: compared.
        differing: sentences of which any token differs.
        tokens: share of tokens that are equal, place by place.
    """

    precision: str
    sentences: int
    differing: int
    tokens: float


def compare(
    ours: Decoding, theirs: Decoding, plan: Plan, sentences: Sentences, report: Callable[[int, Setting], None]
) -> list[Measured]:
    """Measure every setting of a plan; `report` is told how many blocks are done, and of what."""
    found: list[Measured] = []
    for number, setting in enumerate(plan.settings):
        found.append(
            _measure(
                (ours, theirs),
                plan,
                setting,
                sentences,
                lambda done, n=number, s=setting: report(n * plan.pairs + done, s),
            )
        )
    return found


def agreement(ours: Decoding, theirs: Decoding, precision: str, sentences: Sentences, length: int) -> Agreement:
    """Decode some sentences greedily on both sides and compare what they say, token by token."""
    sources = fill(sentences.sources, min(COMPARED_SENTENCES, len(sentences.sources)))
    said = [
        _prepared(side, Setting(precision, 1, 1, 32)).ask("decode", sources=sources, length=length, answers=True)
        for side in (ours, theirs)
    ]
    return compare_answers(precision, said[0]["answers"], said[1]["answers"])


def compare_answers(precision: str, ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> Agreement:
    """Count what differs between the answers to the same sources."""
    pairs = list(zip(ours, theirs, strict=True))
    equal = sum(one == other for a, b in pairs for one, other in zip(a, b, strict=False))
    longest = sum(max(len(a), len(b)) for a, b in pairs)
    return Agreement(
        precision=precision,
        sentences=len(pairs),
        differing=sum(list(a) != list(b) for a, b in pairs),
        tokens=equal / longest if longest else 1.0,
    )


def _measure(
    sides: tuple[Decoding, Decoding], plan: Plan, setting: Setting, sentences: Sentences, report: Callable[[int], None]
) -> Measured:
    for side in sides:
        _prepared(side, setting)
    sources = _block(sides, plan, setting, sentences)
    rates: tuple[list[float], list[float]] = ([], [])
    for done, order in enumerate(turns(plan.pairs)):
        for place in order:
            answer = sides[place].ask("decode", sources=sources, length=plan.length)
            if answer["tokens"] != len(sources) * plan.length:
                raise ValueError(f"a side said {answer['tokens']} tokens, not {len(sources)} times {plan.length}")
            rates[place].append(answer["tokens"] / answer[SECONDS[plan.clock]])
        report(done + 1)
    return Measured(
        setting=setting,
        ratio=paired_ratio(*rates),
        ours=sorted(rates[0])[len(rates[0]) // 2],
        theirs=sorted(rates[1])[len(rates[1]) // 2],
        sentences=len(sources),
    )


def _prepared(side: Decoding, setting: Setting) -> Decoding:
    side.ask("prepare", **setting._asdict())
    return side


def _block(sides: tuple[Decoding, Decoding], plan: Plan, setting: Setting, sentences: Sentences) -> list[list[int]]:
    """Sentences that fill all rows of all workers, often enough for a block to last; both sides are warm then."""
    full, clock = setting.rows * setting.workers, SECONDS[plan.clock]
    times = 1
    while True:
        sources = fill(sentences.sources, full * times)
        seconds = min(side.ask("decode", sources=sources, length=plan.length)[clock] for side in sides)
        if seconds >= plan.block_seconds or len(sources) >= _MOST_SENTENCES:
            return sources
        times = max(times + 1, min(times * 8, round(times * 1.1 * plan.block_seconds / max(seconds, 1e-6))))

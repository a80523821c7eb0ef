"""Finds translations whose attention is instructive, and collects the weights to draw."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.training.data.vocabulary import END
from regard.training.decoding.alignment import merge
from regard.training.decoding.search import Hypothesis, SearchConfig, search_all
from regard.training.learning.checkpoint import Checkpoint
from regard.training.models.protocol import SequenceModel
from regard.training.studies.ladder.report import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A test sentence chosen by eye among `candidates`, and what there is to see."""

    kind: str
    source: str
    note: str


KINDS = ("monotone", "reversed", "one to many")

CHOICES = (
    Choice(
        kind="monotone",
        source="Two adults and two children sit on a park bench.",
        note="Word after word along the diagonal, down to *park bench*, which German makes one word of: *parkbank*.",
    ),
    Choice(
        kind="reversed",
        source="Two men playing guitar in front of a large audience.",
        note="German says where before it says what: *vor einem großen publikum* goes on to the end of the source, and "
        "*gitarre* comes back for *guitar*, over all that was said in between.",
    ),
    Choice(
        kind="verb at the end",
        source="A long-haired, male musician is playing on a piano.",
        note="In a German relative clause the verb comes last: *auf einem klavier* first, then *spielt*, back at "
        "*playing*. (Where it should have said *musiker*, it looks at *long-haired* and says *mann*.)",
    ),
    Choice(
        kind="one to many",
        source="A shirtless man walks toward a yellow kayak.",
        note="*shirtless* takes three words, *mit freiem oberkörper*, and each of them looks at it most. *toward* is "
        "parted: *auf* stands before the kayak and *zu* behind it, and both look at *toward*.",
    ),
)


class WordAttention(NamedTuple):
    """A translation with its attention between words."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Tensor  # [target, source]
    end_weights: Tensor  # [target]


class Candidate(NamedTuple):
    """How well a translation shows something, and where."""

    score: float
    place: int  # of its look
    region: str


def look(found: Checkpoint, sources: Sequence[str], config: SearchConfig) -> list[WordAttention]:
    """Translate sources and return what was looked at, layers and heads averaged."""
    ids = found.vocabulary.encode_all(list(sources))
    searched = search_all(cast(SequenceModel[Any, Any], found.model), ids, config)
    return [_attention_of(found, source, hypotheses[0]) for source, hypotheses in zip(ids, searched, strict=True)]


def picture(choice: Choice, found: WordAttention) -> Picture:
    """Return the figures of a picture."""
    weights = [[round(float(weight), 4) for weight in row] for row in found.weights]
    return Picture(
        kind=choice.kind,
        note=choice.note,
        source=found.source,
        target=found.target,
        weights=tuple(tuple(row) for row in weights),
        end_weights=tuple(round(float(weight), 4) for weight in found.end_weights),
    )


def candidates(looks: Sequence[WordAttention], kind: str, most: int) -> list[Candidate]:
    """Return the looks that show a monotone path, a reversed region or one word said in many best, best first.

    Raises ValueError for another kind.
    """
    finders = {"monotone": _monotone, "reversed": _reversed, "one to many": _one_to_many}
    if kind not in finders:
        raise ValueError(f"kind is {kind!r}, but it is one of {', '.join(KINDS)}.")
    scored: list[Candidate] = []
    for place, one in enumerate(looks):
        if 6 <= len(one.target) <= 14 and len(one.source) <= 14:
            scored.extend(Candidate(score, place, region) for score, region in finders[kind](one))
    return sorted(scored, key=lambda candidate: (-candidate.score, candidate.place))[:most]


def words_of(pieces: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
    """Join pieces, which mark the space before them by "▁", to words; return these and the word of each piece."""
    words: list[str] = []
    places: list[int] = []
    for piece in pieces:
        text = piece.removeprefix("▁")
        if not words or (words[-1] and (text != piece or re.match(r"[.,;:!?\"]", text))):
            words.append("")
        words[-1] += text
        places.append(len(words) - 1)
    return tuple(words), places


def _attention_of(found: Checkpoint, source: Sequence[int], hypothesis: Hypothesis) -> WordAttention:
    target = hypothesis.tokens[:-1] if hypothesis.tokens[-1] == END else hypothesis.tokens
    source_words, source_places = words_of(_pieces(found, source[:-1]))
    target_words, target_places = words_of(_pieces(found, target))
    attention = hypothesis.attention[: len(target)].mean(dim=(1, 2))
    # The end of the source as one more word, so that it is merged like the others.
    merged = merge(attention, [*source_places, len(source_words)], target_places)
    return WordAttention(source_words, target_words, merged[:, :-1], merged[:, -1])


def _pieces(found: Checkpoint, ids: Sequence[int]) -> list[str]:
    # The package types an id that does not exist.
    return [found.vocabulary.tokenizer.id_to_token(index) or "" for index in ids]


def _path(one: WordAttention) -> tuple[list[int], Tensor]:
    """Return the source word that each target word looks at most, and how much."""
    weights, places = one.weights.max(dim=1)
    return [int(place) for place in places], weights


def _monotone(one: WordAttention) -> Iterator[tuple[float, str]]:
    path, weights = _path(one)
    steps = [after - before for before, after in pairwise(path)]
    forward = sum(step == 1 for step in steps) / len(steps)
    yield float(weights.mean()) * forward, ""


def _reversed(one: WordAttention) -> Iterator[tuple[float, str]]:
    """A word that looks before what the words to its left looked at, as a German verb at the end does."""
    path, weights = _path(one)
    for place in range(2, len(path)):
        start = place
        while start > 0 and path[start - 1] > path[place]:
            start -= 1
        passed = len({*path[start:place]})
        if passed >= 2 and one.target[place].isalpha():
            certain = float(weights[start : place + 1].mean())
            region = f"{' '.join(one.target[start : place + 1])} <- {one.source[path[place]]}"
            yield certain * min(passed, 5), region


def _one_to_many(one: WordAttention) -> Iterator[tuple[float, str]]:
    """Neighbouring target words that all look at one source word more than at all others together."""
    path, weights = _path(one)
    for place, source in enumerate(path):
        if place and path[place - 1] == source:
            continue
        stop = place
        while stop < len(path) and path[stop] == source and weights[stop] > 0.5 and one.target[stop].isalpha():
            stop += 1
        if stop - place >= 2 and one.source[source].isalpha():
            region = f"{' '.join(one.target[place:stop])} <- {one.source[source]}"
            yield float(weights[place:stop].mean()) * min(stop - place, 4), region


def as_text(one: WordAttention) -> str:
    """Return source and translation as a line."""
    mean = torch.cat((one.weights, one.end_weights.unsqueeze(1)), dim=1).max(dim=1).values.mean()
    return f"{' '.join(one.source)} => {' '.join(one.target)} (mean of largest weights {float(mean):.2f})"

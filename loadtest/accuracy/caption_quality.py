"""Has a server caption pictures, and scores what it writes and where it looked.

It does not know where the pictures come from or how figures are shown.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.client import Caption, Client
from regard.client.batching.batches import MAX_CALL_BYTES, MAX_CALL_IMAGES, caption_each
from regard.client.batching.grouping import in_groups
from regard.client.batching.pipeline import in_order
from regard.client.replies import caption as read_reply
from regard.client.requests import CaptionOptions
from regard.loadtest.accuracy.picture_sets import PictureSet
from regard.loadtest.accuracy.pointing import OneThing, Pointing, Pointings, gather, point
from regard.loadtest.accuracy.translation_quality import CALL_SECONDS, CALLS_IN_FLIGHT, Search
from regard.loadtest.base.progress import Progress
from regard.scoring.captions import Score, score_captions
from regard.v1.captioning_pb2 import CaptionRequest, CaptionResponse

Maps = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionFigures:
    """How captions compare with those of people.

    Attributes:
        test_set: what was captioned.
        pictures: how many.
        references: captions of people of one picture, fewest and most.
        scores: of all pictures; one without an answer counts as an empty caption.
        published: whether the paper's figures are of the same pictures.
        pictures_per_second: captioned, with the calls that this program keeps in flight.
    """

    test_set: str
    pictures: int
    references: tuple[int, int]
    scores: tuple[Score, ...]
    published: bool
    pictures_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionResult:
    """What was measured.

    Attributes:
        model: who answered.
        search: how.
        captions: None if there were no captions to compare with.
        pointing: None if it was not asked for.
        failures: pictures without a caption, with the reason.
    """

    model: str
    search: str
    captions: CaptionFigures | None
    pointing: Pointings | None
    failures: tuple[str, ...]


class _Answer(NamedTuple):
    text: str = ""
    words: tuple[str, ...] = ()
    maps: Maps | None = None
    model: str = ""
    failure: str = ""


class _Read(NamedTuple):
    content: bytes
    failure: str = ""


def measure_captions(
    client: Client, search: Search, *, pictures: PictureSet | None, things: Sequence[OneThing]
) -> CaptionResult:
    """Caption pictures and things. Raises RegardCallError where a whole call fails."""
    failures: list[str] = []
    figures = pointing = None
    model = ""
    if pictures is not None:
        names = [picture.name for picture in pictures.pictures]
        began = time.monotonic()
        answers = _each(client, search, "caption", [partial(pictures.read, name) for name in names], maps=False)
        seconds = max(time.monotonic() - began, 1e-9)
        failures += [f"{name}: {a.failure}" for name, a in zip(names, answers, strict=True) if a.failure]
        model = next((answer.model for answer in answers if answer.model), "")
        references = [picture.captions for picture in pictures.pictures]
        figures = CaptionFigures(
            test_set=pictures.name,
            pictures=len(names),
            references=(min(map(len, references)), max(map(len, references))),
            scores=tuple(score_captions([answer.text for answer in answers], references)),
            published=pictures.published,
            pictures_per_second=len(names) / seconds,
        )
    if things:
        answers = _each(client, search, "point  ", [lambda thing=thing: thing.content for thing in things], maps=True)
        failures += [f"{thing.name}: {a.failure}" for thing, a in zip(things, answers, strict=True) if a.failure]
        model = model or next((answer.model for answer in answers if answer.model), "")
        found: list[dict[str, Pointing]] = [
            point(thing, answer.words, answer.maps)
            for thing, answer in zip(things, answers, strict=True)
            if answer.maps is not None
        ]
        pointing = gather(len(things), found)
    return CaptionResult(model=model, search=search.told, captions=figures, pointing=pointing, failures=tuple(failures))


def _each(
    client: Client, search: Search, label: str, readers: Sequence[Callable[[], bytes]], *, maps: bool
) -> list[_Answer]:
    """Caption every picture; one that cannot be read, or that the server refuses, fails alone."""
    options = CaptionOptions(model=search.model, version=search.version, beam_size=search.beam_size)
    options["length_penalty"] = search.length_penalty
    options["attention"] = "word" if maps else None

    def send(request: CaptionRequest) -> CaptionResponse:
        return client.send_caption(request, timeout=CALL_SECONDS)

    def ask(group: Sequence[_Read]) -> list[_Answer]:
        whole = [read.content for read in group if not read.failure]
        replies = iter(caption_each(send, whole, **options))
        return [_Answer(failure=r.failure) if r.failure else _answer(read_reply(next(replies), "word")) for r in group]

    progress = Progress(label, len(readers))
    groups = in_groups(map(_read, readers), _size, most=MAX_CALL_IMAGES, most_size=MAX_CALL_BYTES)
    began = time.monotonic()
    answers: list[_Answer] = []
    try:
        for answered in in_order(groups, ask, in_flight=CALLS_IN_FLIGHT):
            answers += answered
            speed = len(answers) / max(time.monotonic() - began, 1e-9)
            progress.show(len(answers), f"{len(answers)} of {len(readers)}, {speed:.1f}/s")
    finally:
        progress.close()
    return answers


def _answer(caption: Caption) -> _Answer:
    model = f"{caption.model.name} {caption.model.version} ({caption.model.profile})" if caption.model.name else ""
    if caption.error is not None:
        return _Answer(model=model, failure=caption.error.message)
    return _Answer(text=caption.text, words=caption.words, maps=caption.maps, model=model)


def _read(reader: Callable[[], bytes]) -> _Read:
    try:
        return _Read(reader())
    except OSError as problem:
        return _Read(b"", problem.strerror or str(problem))


def _size(read: _Read) -> int:
    return len(read.content)

"""Makes the requests of a load test: which texts and pictures, with which options, already serialised.

It does not know when they are sent, nor any network, nor where pictures come from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.loadtest.load.traffic import LENGTHS, TrafficClass
from regard.v1.attention_pb2 import (
    ATTENTION_ENCODING_FLOAT16,
    ATTENTION_GRANULARITY_UNSPECIFIED,
    ATTENTION_GRANULARITY_WORD,
    AttentionOptions,
)
from regard.v1.captioning_pb2 import CaptionRequest
from regard.v1.decoding_pb2 import DecodingOptions
from regard.v1.translation_pb2 import TranslateRequest

TRANSLATE = "/regard.v1.TranslationService/Translate"
CAPTION = "/regard.v1.CaptioningService/Caption"
BATCHES = 32

_Item = TypeVar("_Item")

# The files of pictures of a size; raises ValueError if there are none.
FindPictures = Callable[[str], Sequence[bytes]]


class Payload(NamedTuple):
    """A request as it goes over the wire."""

    name: str  # of its class
    method: str
    attention: bool  # whether the answer must have it
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """All payloads of a run, and how often each class is drawn."""

    payloads: tuple[Payload, ...]
    classes: tuple[TrafficClass, ...]

    def draw(self, *, count: int, seed: int, worker: int = 0) -> NDArray[np.int64]:
        """Indices of the payloads of one worker's requests [count]; the same arguments give the same ones."""
        random = Random(f"payloads/{seed}/{worker}")  # noqa: S311 - reproducible, not secret
        members = [[i for i, payload in enumerate(self.payloads) if payload.name == c.name] for c in self.classes]
        weights = [c.weight for c in self.classes]
        drawn = random.choices(members, weights, k=count)
        return np.array([random.choice(indices) for indices in drawn], dtype=np.int64)


def read_sentences(path: str = "") -> tuple[str, ...]:
    """The sentences of a file, one a line, or the built-in ones. Raises ValueError for a file without any."""
    where = Path(path) if path else files("regard.loadtest.load").joinpath("sentences.txt")
    sentences = tuple(line.strip() for line in where.read_text(encoding="utf-8").split("\n") if line.strip())
    if not sentences:
        raise ValueError(f"{path} holds no sentence")
    return sentences


def build_corpus(
    *, sentences: Sequence[str], pictures: FindPictures, classes: Sequence[TrafficClass], seed: int
) -> Corpus:
    """Serialise the requests of all classes. Raises ValueError if a class finds no sentence or picture of its size."""
    payloads: list[Payload] = []
    for traffic in classes:
        random = Random(f"corpus/{seed}/{traffic.name}")  # noqa: S311 - reproducible, not secret
        if traffic.pictures:
            groups = _groups(pictures(traffic.size), traffic.pictures, random)
            payloads.extend(_caption(traffic, group) for group in groups)
        else:
            groups = _groups(_fitting(traffic, sentences), traffic.texts, random)
            payloads.extend(_translation(traffic, group) for group in groups)
    return Corpus(payloads=tuple(payloads), classes=tuple(classes))


def _fitting(traffic: TrafficClass, sentences: Sequence[str]) -> list[str]:
    shortest, longest = LENGTHS[traffic.length]
    fitting = [sentence for sentence in sentences if shortest <= len(sentence.split()) <= longest]
    if not fitting:
        raise ValueError(f"class {traffic.name}: no sentence has {shortest} to {longest} words")
    return fitting


def _groups(items: Sequence[_Item], size: int, random: Random) -> list[list[_Item]]:
    if size == 1:
        return [[item] for item in items]
    return [random.choices(items, k=size) for _ in range(BATCHES)]


def _translation(traffic: TrafficClass, texts: Sequence[str]) -> Payload:
    request = TranslateRequest(
        model=traffic.model, texts=texts, decoding=_decoding(traffic), attention=_attention(traffic)
    )
    return Payload(traffic.name, TRANSLATE, traffic.attention, request.SerializeToString(deterministic=True))


def _caption(traffic: TrafficClass, images: Sequence[bytes]) -> Payload:
    request = CaptionRequest(
        model=traffic.model, images=images, decoding=_decoding(traffic), attention=_attention(traffic)
    )
    return Payload(traffic.name, CAPTION, traffic.attention, request.SerializeToString(deterministic=True))


def _decoding(traffic: TrafficClass) -> DecodingOptions | None:
    return DecodingOptions(beam_size=traffic.beam_size) if traffic.beam_size else None


def _attention(traffic: TrafficClass) -> AttentionOptions | None:
    if not traffic.attention:
        return None
    granularity = ATTENTION_GRANULARITY_WORD if traffic.pictures else ATTENTION_GRANULARITY_UNSPECIFIED
    return AttentionOptions(encoding=ATTENTION_ENCODING_FLOAT16, granularity=granularity)

"""Makes the requests of a load test: which texts, with which options, already serialised.

It does not know when they are sent, nor any network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.v1.attention_pb2 import ATTENTION_ENCODING_FLOAT16, AttentionOptions
from regard.v1.decoding_pb2 import DecodingOptions
from regard.v1.translation_pb2 import TranslateRequest

# Words, both ends included.
LENGTHS = {"short": (1, 6), "medium": (7, 16), "long": (17, 10_000), "any": (1, 10_000)}
BATCHES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficClass:
    """One kind of request, with figures of its own in the report.

    Attributes:
        name: in the report.
        weight: its share among the other classes.
        length: which sentences: short, medium, long or any.
        texts: how many of them in a call.
        beam_size: 0 leaves the choice to the server.
        attention: whether subword attention matrices are asked for.
        model: empty leaves the choice to the server.
    """

    name: str
    weight: float = 1.0
    length: str = "any"
    texts: int = 1
    beam_size: int = 0
    attention: bool = False
    model: str = ""

    def __post_init__(self) -> None:
        if self.length not in LENGTHS:
            raise ValueError(f"class {self.name}: length must be one of {', '.join(LENGTHS)}, not {self.length!r}")
        if not self.weight > 0:
            raise ValueError(f"class {self.name}: weight must be above 0, not {self.weight}")
        if self.texts < 1:
            raise ValueError(f"class {self.name}: needs at least one text in a call, not {self.texts}")


BUILT_IN_CLASSES = {
    "any": TrafficClass(name="any"),
    "short": TrafficClass(name="short", length="short"),
    "medium": TrafficClass(name="medium", length="medium"),
    "long": TrafficClass(name="long", length="long"),
    "batch": TrafficClass(name="batch", texts=8),
    "beam": TrafficClass(name="beam", beam_size=5),
    "attention": TrafficClass(name="attention", attention=True),
}


class Payload(NamedTuple):
    """A request as it goes over the wire."""

    name: str  # of its class
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


def parse_classes(text: str) -> tuple[TrafficClass, ...]:
    """Read `short=3,beam=1`: built-in classes with their weights. Raises ValueError."""
    classes: list[TrafficClass] = []
    for part in text.split(","):
        name, _, weight = part.strip().partition("=")
        if name not in BUILT_IN_CLASSES:
            raise ValueError(f"no traffic class {name!r}; there are {', '.join(BUILT_IN_CLASSES)}")
        classes.append(replace(BUILT_IN_CLASSES[name], weight=float(weight or 1)))
    if len({c.name for c in classes}) != len(classes):
        raise ValueError(f"a traffic class is named twice in {text!r}")
    return tuple(classes)


def read_sentences(path: str = "") -> tuple[str, ...]:
    """The sentences of a file, one a line, or the built-in ones. Raises ValueError for a file without any."""
    where = Path(path) if path else files("loadtest").joinpath("sentences.txt")
    sentences = tuple(line.strip() for line in where.read_text(encoding="utf-8").split("\n") if line.strip())
    if not sentences:
        raise ValueError(f"{path} holds no sentence")
    return sentences


def build_corpus(*, sentences: Sequence[str], classes: Sequence[TrafficClass], seed: int) -> Corpus:
    """Serialise the requests of all classes. Raises ValueError if a class finds no sentence of its length."""
    payloads: list[Payload] = []
    for traffic in classes:
        shortest, longest = LENGTHS[traffic.length]
        fitting = [sentence for sentence in sentences if shortest <= len(sentence.split()) <= longest]
        if not fitting:
            raise ValueError(f"class {traffic.name}: no sentence has {shortest} to {longest} words")
        random = Random(f"corpus/{seed}/{traffic.name}")  # noqa: S311 - reproducible, not secret
        groups = (
            [[sentence] for sentence in fitting]
            if traffic.texts == 1
            else [random.choices(fitting, k=traffic.texts) for _ in range(BATCHES)]
        )
        payloads.extend(_payload(traffic, group) for group in groups)
    return Corpus(payloads=tuple(payloads), classes=tuple(classes))


def _payload(traffic: TrafficClass, texts: Sequence[str]) -> Payload:
    request = TranslateRequest(
        model=traffic.model,
        texts=texts,
        decoding=DecodingOptions(beam_size=traffic.beam_size) if traffic.beam_size else None,
        attention=AttentionOptions(encoding=ATTENTION_ENCODING_FLOAT16) if traffic.attention else None,
    )
    return Payload(traffic.name, request.SerializeToString(deterministic=True))

"""What a load test is: one frozen value from which the whole load follows, and its form on disk.

It does not know how load is made or measured.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from regard.loadtest.load.arrivals import Schedule, constant, poisson
from regard.loadtest.load.corpus import Corpus, build_corpus, read_sentences
from regard.loadtest.load.pictures import Pictures
from regard.loadtest.load.traffic import TrafficClass

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A load test.

    Attributes:
        address: host:port of the server.
        loop: `open` sends at the scheduled times, whatever the server does; `closed` keeps `users` calls in flight.
        arrivals: of an open loop: `poisson` or `constant`.
        rate: of an open loop, requests per second.
        users: of a closed loop, calls in flight.
        warmup: seconds at the start that no figure contains.
        duration: seconds that are measured, after the warm-up.
        deadline: seconds that a call may take.
        seed: of arrival times and of the choice of payloads.
        workers: processes that make the load.
        connections: of each worker.
        classes: kinds of request.
        sentences: file of texts, one a line; empty for the built-in ones.
        pictures: folder of picture files; empty for drawn ones.
    """

    address: str
    loop: str = "open"
    arrivals: str = "poisson"
    rate: float = 20.0
    users: int = 8
    warmup: float = 2.0
    duration: float = 30.0
    deadline: float = 10.0
    seed: int = 1
    workers: int = 1
    connections: int = 2
    classes: tuple[TrafficClass, ...] = (TrafficClass(name="any"),)
    sentences: str = ""
    pictures: str = ""

    def __post_init__(self) -> None:
        if self.loop not in ("open", "closed"):
            raise ValueError(f"loop must be open or closed, not {self.loop!r}")
        if self.arrivals not in ("poisson", "constant"):
            raise ValueError(f"arrivals must be poisson or constant, not {self.arrivals!r}")
        for name in ("rate", "duration", "deadline"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not 0 <= self.warmup < float("inf"):
            raise ValueError(f"warmup must not be negative, not {self.warmup}")
        for name in ("users", "workers", "connections"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.classes:
            raise ValueError("a plan needs at least one traffic class")

    @property
    def seconds(self) -> float:
        """Seconds during which requests are sent."""
        return self.warmup + self.duration

    def schedule(self, worker: int) -> Schedule:
        """When the requests of a worker of an open loop are due."""
        if self.arrivals == "constant":
            return constant(rate=self.rate, seconds=self.seconds, worker=worker, workers=self.workers)
        return poisson(rate=self.rate, seconds=self.seconds, seed=self.seed, worker=worker, workers=self.workers)

    def corpus(self) -> Corpus:
        """The payloads of the run."""
        sentences = read_sentences(self.sentences)
        pictures = Pictures(self.pictures, seed=self.seed)
        return build_corpus(sentences=sentences, pictures=pictures.of_size, classes=self.classes, seed=self.seed)

    def planned(self) -> int | None:
        """Requests that must be sent; None for a closed loop, where the server decides."""
        if self.loop == "closed":
            return None
        return sum(len(self.schedule(worker)) for worker in range(self.workers))

    def to_json(self) -> str:
        """The plan with fingerprints of the schedule and payloads that follow from it."""
        corpus = self.corpus()
        schedules = [self.schedule(worker) for worker in range(self.workers)] if self.loop == "open" else []
        value = {
            "schema_version": SCHEMA_VERSION,
            **asdict(self),
            "planned_requests": self.planned(),
            "schedule_sha256": fingerprint(*schedules),
            "payloads_sha256": hashlib.sha256(b"".join(payload.body for payload in corpus.payloads)).hexdigest(),
        }
        return json.dumps(value, indent=2) + "\n"


def plan_from_json(text: str) -> Plan:
    """Read what `Plan.to_json` wrote. Raises ValueError for another schema or unknown values."""
    value = cast("dict[str, Any]", json.loads(text))
    if value.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"plan has schema version {value.get('schema_version')}, this program reads {SCHEMA_VERSION}")
    known = {field.name for field in fields(Plan)}
    derived = {"schema_version", "planned_requests", "schedule_sha256", "payloads_sha256"}
    if unknown := value.keys() - known - derived:
        raise ValueError(f"plan has unknown fields: {', '.join(sorted(unknown))}")
    classes = tuple(TrafficClass(**traffic) for traffic in value["classes"])
    # A plan from before there was some field means its default.
    return Plan(**{name: value[name] for name in known & value.keys() if name != "classes"}, classes=classes)


def fingerprint(*arrays: NDArray[np.int64]) -> str:
    """sha256 of integers, hexadecimal."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.astype("<i8").tobytes())
    return digest.hexdigest()

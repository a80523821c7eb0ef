"""Keeps what is known of each slot of a pool, and which running request owns it.

Does not know models, scores or where rows lie. A slot is a place that a hypothesis of a request has from admission to
the end; a greedy request owns one, a beam as many as it is wide.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.server.engine.decoder import DecoderFacts
from regard.server.engine.scheduler import Job
from regard.server.request import DecodeRequest, Ids
from regard.server.search.hypothesis_store import Leaf, Slots


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """A segment that has rows.

    Attributes:
        slots: that it owns [beam].
        started: when it got them; seconds.
        encode_seconds: that the encoding of its batch took.
        steps_before, rows_before: steps of the pool, and rows in them, before its first one.
        leaves: hypotheses that ended.
    """

    job: Job
    slots: Slots
    started: float
    encode_seconds: float
    steps_before: int
    rows_before: int
    leaves: list[Leaf] = field(default_factory=list[Leaf])


class SlotTable:
    """Per-slot facts, all arrays [capacity].

    Attributes:
        length: tokens generated so far.
        limit: most tokens; a forced target counts its end of sentence.
        minimum: fewest tokens before the end of sentence is allowed.
        deadline: seconds of the monotonic clock.
        source_length: real positions of the source.
        total: summed log-probability of a beam's hypothesis; -inf where there is none.
        single: the slot is searched greedily or scored, and is no part of a beam.
        forced: the target is given.
        owner: who has the slot.
    """

    def __init__(self, capacity: int) -> None:
        self.length: Ids = np.zeros(capacity, dtype=np.int64)
        self.limit: Ids = np.zeros(capacity, dtype=np.int64)
        self.minimum: Ids = np.zeros(capacity, dtype=np.int64)
        self.source_length: Ids = np.zeros(capacity, dtype=np.int64)
        self.deadline: NDArray[np.float64] = np.full(capacity, np.inf)
        self.total: NDArray[np.float64] = np.full(capacity, -np.inf)
        self.single: NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)
        self.forced: NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)
        self.owner: list[Running | None] = [None] * capacity
        # Last in, first out: memory behind slots that were never used is never touched.
        self._free = list(range(capacity - 1, -1, -1))

    @property
    def free(self) -> int:
        """Slots that nobody owns."""
        return len(self._free)

    @property
    def owned(self) -> int:
        """Slots that somebody owns."""
        return len(self.owner) - len(self._free)

    def claim(self, request: DecodeRequest, facts: DecoderFacts) -> Slots:
        """Return slots for a request, with the facts of a search that has not begun."""
        beams = rows_needed(request)
        slots = np.array([self._free.pop() for _ in range(beams)], dtype=np.intp)
        # A plain number is a much cheaper index than an array of one.
        place = slots if beams > 1 else int(slots[0])
        forced = request.forced_target is not None
        self.length[place] = 0
        self.limit[place] = target_limit(request, facts)
        self.minimum[place] = 0 if forced else request.search.min_length
        self.deadline[place] = request.context.deadline
        self.source_length[place] = facts.positions(request.source)
        self.total[place] = -np.inf
        self.total[slots[0]] = 0.0
        self.single[place] = beams == 1
        self.forced[place] = forced
        return slots

    def release(self, slots: Slots) -> None:
        """Give slots back."""
        for slot in slots.tolist():
            self.owner[slot] = None
            self._free.append(slot)


def rows_needed(request: DecodeRequest) -> int:
    """Return how many rows a request owns."""
    return 1 if request.forced_target is not None else request.search.beam_size


def target_limit(request: DecodeRequest, facts: DecoderFacts) -> int:
    """Return after how many tokens a request ends at the latest, the end of sentence of a forced target counted."""
    if request.forced_target is not None:
        return len(request.forced_target) + 1
    return min(request.search.max_length, facts.most_tokens(facts.positions(request.source)))

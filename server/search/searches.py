"""Keeps the searches of a pool: what each slot has generated so far and may still generate, and whose it is.

A slot is the place of one hypothesis, from the admission of its request to the end. A greedy search or a forced target
has one slot, a beam as many as it is wide. Rows move between steps, slots do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.server.request import DecodeRequest, Ids
from regard.server.search.rule import FinishedHypothesis, Slots


@dataclass(slots=True, kw_only=True, eq=False)
class Search:
    """The search for the target of one request.

    Attributes:
        slots: that it owns [beam].
        positions: source positions that its attention has, padding not counted.
        finished: hypotheses, in the order in which they finished.
    """

    request: DecodeRequest
    slots: Slots
    positions: int
    finished: list[FinishedHypothesis] = field(default_factory=list[FinishedHypothesis])

    @property
    def ngram(self) -> int:
        """Tokens of an n-gram that must not come twice; 0 allows all, as in a forced target."""
        return 0 if self.request.forced_target is not None else self.request.search.no_repeat_ngram

    @property
    def min_length(self) -> int:
        """Tokens before the end of sentence is allowed; that of a forced target is."""
        return 0 if self.request.forced_target is not None else self.request.search.min_length


class BeamGroup:
    """The beams of one width."""

    def __init__(self, beams: int) -> None:
        self.beams = beams
        self.members: list[Search] = []
        self._slots: Slots | None = None

    def add(self, search: Search) -> None:
        """Add a beam that has not begun."""
        self.members.append(search)
        self._slots = None

    def remove(self, search: Search) -> None:
        """Remove a beam."""
        self.members.remove(search)
        self._slots = None

    @property
    def slots(self) -> Slots:
        """Slots of the members [member, beam]."""
        if self._slots is None:
            self._slots = np.stack([search.slots for search in self.members])
        return self._slots


class SearchTable:
    """All running searches; facts of a slot are arrays [slot].

    Attributes:
        length: tokens generated so far.
        limit: most tokens; a forced target counts its end of sentence.
        min_length: tokens before the end of sentence is allowed.
        total: summed log-probabilities of a beam's hypothesis; -inf where there is none.
        single: the search has this slot alone: it is greedy, or its target is forced.
        forced: the target is given.
        searches: in the order of their admission.
        groups: beams by width.
        singles, forced_targets, held_back, blocked: number of searches with one slot, with a forced target, with a
            least length, and with n-gram blocking.
        owned: slots of all searches.
    """

    def __init__(self, slots: int) -> None:
        self.length: Ids = np.zeros(slots, dtype=np.int64)
        self.limit: Ids = np.zeros(slots, dtype=np.int64)
        self.min_length: Ids = np.zeros(slots, dtype=np.int64)
        self.total: NDArray[np.float64] = np.full(slots, -np.inf)
        self.single: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        self.forced: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        self.searches: list[Search] = []
        self.groups: dict[int, BeamGroup] = {}
        self.singles = self.forced_targets = self.held_back = self.blocked = self.owned = 0
        self._owner: list[Search | None] = [None] * slots

    def add(self, search: Search, *, limit: int) -> None:
        """Add a search that has not begun, whose targets have at most `limit` tokens."""
        slots, beams = search.slots, len(search.slots)
        # A plain number is a much cheaper index than an array of one.
        place = slots if beams > 1 else int(slots[0])
        self.length[place] = 0
        self.limit[place] = limit
        self.min_length[place] = search.min_length
        self.total[place] = -np.inf
        self.total[slots[0]] = 0.0
        self.single[place] = beams == 1
        self.forced[place] = search.request.forced_target is not None
        for slot in slots.tolist():
            self._owner[slot] = search
        self.searches.append(search)
        if beams > 1:
            self.groups.setdefault(beams, BeamGroup(beams)).add(search)
        self._count(search, 1)

    def remove(self, searches: Iterable[Search]) -> None:
        """Remove searches; their slots are free for others."""
        for search in searches:
            self.searches.remove(search)
            for slot in search.slots.tolist():
                self._owner[slot] = None
            beams = len(search.slots)
            if beams > 1:
                self.groups[beams].remove(search)
                if not self.groups[beams].members:
                    del self.groups[beams]
            self._count(search, -1)

    def owner(self, slot: int) -> Search:
        """Return whose slot it is."""
        search = self._owner[slot]
        if search is None:
            raise RuntimeError(f"slot {slot} belongs to no search")
        return search

    def owners(self, slots: Slots) -> list[Search]:
        """Return the owners of slots, each once, in the order of the slots."""
        return list(dict.fromkeys(self.owner(slot) for slot in slots.tolist()))

    def _count(self, search: Search, by: int) -> None:
        self.owned += by * len(search.slots)
        self.singles += by * (len(search.slots) == 1)
        self.forced_targets += by * (search.request.forced_target is not None)
        self.held_back += by * (search.min_length > 0)
        self.blocked += by * (search.ngram > 0)


def slots_needed(request: DecodeRequest) -> int:
    """Return how many slots the search for a request owns."""
    return 1 if request.forced_target is not None else request.search.beam_size

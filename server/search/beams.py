"""Advances the beams of a pool by one step, all beams of one width at once.

Does not know models, requests' callers or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.engine.slots import Running, SlotTable
from regard.server.request import Ids, Weights
from regard.server.search.candidates import FLOOR, Candidates, continuations, divide
from regard.server.search.hypothesis_store import History, Leaf

Index = NDArray[np.intp]


class Growth(NamedTuple):
    """Which hypotheses go on; one entry for each.

    Attributes:
        slots: where the hypothesis lies from now on.
        parents: rows of the last step that they continue.
        tokens: their newest tokens.
        over: beams whose search has ended.
    """

    slots: Index
    parents: Index
    tokens: Ids
    over: list[Running]


class BeamGroup:
    """The running beams of one width."""

    def __init__(self, beams: int) -> None:
        self.beams = beams
        self.members: list[Running] = []
        self._slots: Index | None = None

    def add(self, running: Running) -> None:
        """Take in a beam that has not begun."""
        self.members.append(running)
        self._slots = None

    def drop(self, running: Running) -> None:
        """Forget a beam."""
        self.members.remove(running)
        self._slots = None

    @property
    def slots(self) -> Index:
        """Slots of the members [member, beam]."""
        if self._slots is None:
            self._slots = np.stack([running.slots for running in self.members])
        return self._slots


class BeamSearch:
    """The rule of `regard.server.search.candidates` for beams, over the slots, rows and history of a pool."""

    def __init__(self, table: SlotTable, history: History, *, end: int, ordinary: int) -> None:
        self._table = table
        self._history = history
        self._end = end
        self._ordinary = ordinary

    def advance(self, group: BeamGroup, scores: Weights, best: Ids, row_of_slot: Index) -> Growth:
        """Extend every hypothesis of the group by the step whose scores [row, vocabulary] are given.

        The lengths of slots that had a row count the new token already. Scores hold neither NaN nor +inf, and those of
        the group have no meaning afterwards; `best` is the best token of each row.
        """
        table, beams, slots = self._table, group.beams, group.slots
        totals = table.total.take(slots)
        # A dead hypothesis may have no row; -1 reads that of another, which its total of -inf makes void.
        rows = row_of_slot.take(slots)
        candidates = continuations(scores, best, rows, totals, end=self._end)
        length = table.length.take(slots[:, 0])
        at_limit = length >= table.limit.take(slots[:, 0])
        # As many candidates as hypotheses, all of which exist, are all that go on.
        if candidates.token.shape[1] == beams and candidates.total.min() > -np.inf and not at_limit.any():
            self._note(slots, length[:, None], candidates)
            return Growth(slots.reshape(-1), candidates.row.reshape(-1), candidates.token.reshape(-1), [])

        self._revive(group, candidates, rows, totals)
        survivors = divide(candidates, beams=beams, end=self._end)
        over = at_limit | ~survivors.alive[:, 0]
        for place in np.flatnonzero(over | survivors.ended.any(axis=1)).tolist():
            leaves = group.members[place].leaves
            self._finish(
                leaves,
                candidates.pick(place),
                # At the limit, hypotheses that are cut fill the places that those which end leave.
                np.flatnonzero(survivors.ended[place]).tolist()
                + (survivors.order[place][survivors.alive[place]].tolist() if at_limit[place] else []),
                most=beams,
                length=int(length[place]) - 1,
            )
            over[place] |= len(leaves) >= beams

        alive = survivors.alive & ~over[:, None]
        places = slots[:, : alive.shape[1]][alive]
        # From here on one entry for each hypothesis that goes on.
        member, rank = np.nonzero(alive)
        rank = survivors.order[member, rank]
        chosen = candidates.pick((member, rank))
        table.total[slots] = -np.inf
        self._note(places, length[member], chosen)
        return Growth(places, chosen.row, chosen.token, _members(group.members, over))

    def _note(self, slots: Index, length: Ids, chosen: Candidates) -> None:
        """Write down by which token of which parent each of these slots goes on, as its number `length`, from 1."""
        log_probability = np.maximum(chosen.log_probability, FLOOR)
        self._history.go_on(slots, length - 1, chosen.token, log_probability, chosen.parent)
        self._table.length[slots] = length
        self._table.total.put(slots, chosen.total)

    def _revive(self, group: BeamGroup, candidates: Candidates, rows: Index, totals: NDArray[np.float64]) -> None:
        """Let a beam whose rows allow nothing, and which has found nothing yet, go on with an ordinary token."""
        for place in np.flatnonzero(candidates.total[:, 0] == -np.inf).tolist():
            if group.members[place].leaves:
                continue
            best = int(totals[place].argmax())
            candidates.row[place, 0] = rows[place, best]
            candidates.parent[place, 0] = best
            candidates.token[place, 0] = self._ordinary
            candidates.total[place, 0] = totals[place, best] + FLOOR
            candidates.log_probability[place, 0] = FLOOR

    def _finish(
        self, leaves: list[Leaf], candidates: Candidates, ranks: Sequence[int], *, most: int, length: int
    ) -> None:
        """Add those of the candidates [candidate] of one beam that are finished by this step, up to `most` leaves."""
        leaves.extend(
            Leaf(
                parent=int(candidates.parent[rank]),
                length=length,
                token=int(candidates.token[rank]),
                log_probability=float(max(candidates.log_probability[rank], FLOOR)),
                ended=bool(candidates.token[rank] == self._end),
                total=float(candidates.total[rank]),
            )
            for rank in ranks[: most - len(leaves)]
        )


def _members(members: Sequence[Running], which: NDArray[np.bool_]) -> list[Running]:
    return [members[place] for place in np.flatnonzero(which).tolist()]

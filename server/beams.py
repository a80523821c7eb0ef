"""Advances the beams of a pool by one step, all beams of one width at once.

Does not know models, requests' callers or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from server.history import History, Leaf
from server.request import Ids, Weights
from server.search import FLOOR, Candidates, TopTokens, divide
from server.slots import Running, SlotTable

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
    """The rule of `server.search` for beams, over the slots, rows and history of a pool."""

    def __init__(self, table: SlotTable, history: History, *, vocabulary: int, end: int, ordinary: int) -> None:
        self._table = table
        self._history = history
        self._top = TopTokens(vocabulary)
        self._end = end
        self._ordinary = ordinary

    def maxima(self, scores: Weights) -> Weights:
        """Return what `advance` needs to know of scores [row, vocabulary] besides themselves."""
        return self._top.maxima(scores)

    def advance(self, group: BeamGroup, scores: Weights, maxima: Weights, row_of_slot: Index) -> Growth:
        """Extend every hypothesis of the group by the step whose scores [row, vocabulary] are given.

        The lengths of slots that had a row count the new token already. Scores hold neither NaN nor +inf.
        """
        table, beams, slots = self._table, group.beams, group.slots
        totals = table.total.take(slots)
        # A dead hypothesis may have no row; -1 reads that of another, which its total of -inf makes void.
        rows = row_of_slot.take(slots)
        candidates = self._top.candidates(scores, maxima, rows, totals, 2 * beams)
        length = table.length.take(slots[:, 0])
        at_limit = length >= table.limit.take(slots[:, 0])
        if self._all_go_on(candidates, beams) and not at_limit.any():
            parent, token = candidates.parent[:, :beams], candidates.token[:, :beams]
            total = candidates.total[:, :beams]
            row = rows.take(np.add(parent, np.arange(0, rows.size, beams)[:, None]))
            self._note(slots, length[:, None] - 1, parent, token, total, _chosen(scores, row, token))
            return Growth(slots.reshape(-1), row.reshape(-1), token.reshape(-1), [])

        self._revive(group, candidates, totals)
        survivors = divide(candidates, beams=beams, end=self._end)
        member = np.arange(len(slots))[:, None]
        chosen = _chosen(scores, rows[member, candidates.parent], candidates.token)
        over = at_limit | ~survivors.alive[:, 0]
        for place in np.flatnonzero(over | survivors.ended.any(axis=1)).tolist():
            leaves = group.members[place].leaves
            self._finish(
                leaves,
                Candidates(*(part[place] for part in candidates)),
                chosen[place],
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
        parent, token = candidates.parent[member, rank], candidates.token[member, rank]
        table.total[slots] = -np.inf
        total, chosen = candidates.total[member, rank], chosen[member, rank]
        self._note(places, length[member] - 1, parent, token, total, chosen)
        return Growth(places, rows[member, parent], token, _members(group.members, over))

    def _all_go_on(self, candidates: Candidates, beams: int) -> bool:
        """Whether no candidate ends and all exist, so that the best ones of each beam are those that go on."""
        token, total = candidates.token, candidates.total
        return bool(token.shape[1] >= beams and total[:, -1].min() > -np.inf and (token != self._end).all())

    def _note(
        self, slots: Index, step: Ids, parent: Index, token: Ids, total: NDArray[np.float64], chosen: Weights
    ) -> None:
        """Write down by which token of which parent each of these slots goes on, and what that was worth."""
        history, table = self._history, self._table
        history.tokens[slots, step] = token
        history.log_probabilities[slots, step] = chosen
        history.parents[slots, step] = parent
        table.length[slots] = step + 1
        table.total[slots] = total

    def _revive(self, group: BeamGroup, candidates: Candidates, totals: NDArray[np.float64]) -> None:
        """Let a beam whose rows allow nothing, and which has found nothing yet, go on with an ordinary token."""
        for place in np.flatnonzero(candidates.total[:, 0] == -np.inf).tolist():
            if group.members[place].leaves:
                continue
            best = int(totals[place].argmax())
            candidates.parent[place, 0] = best
            candidates.token[place, 0] = self._ordinary
            candidates.total[place, 0] = totals[place, best] + FLOOR

    def _finish(
        self,
        leaves: list[Leaf],
        candidates: Candidates,
        chosen: Weights,
        ranks: Sequence[int],
        *,
        most: int,
        length: int,
    ) -> None:
        """Add those of the candidates [candidate] of one beam that are finished by this step, up to `most` leaves."""
        leaves.extend(
            Leaf(
                parent=int(candidates.parent[rank]),
                length=length,
                token=int(candidates.token[rank]),
                log_probability=float(chosen[rank]),
                ended=bool(candidates.token[rank] == self._end),
                total=float(candidates.total[rank]),
            )
            for rank in ranks[: most - len(leaves)]
        )


def _chosen(scores: Weights, rows: Index, tokens: Ids) -> Weights:
    """Return the log-probabilities of tokens in rows, of which none is below FLOOR."""
    return np.maximum(scores.reshape(-1).take(np.add(rows * scores.shape[1], tokens)), FLOOR)


def _members(members: Sequence[Running], which: NDArray[np.bool_]) -> list[Running]:
    return [members[place] for place in np.flatnonzero(which).tolist()]

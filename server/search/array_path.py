"""Advances any batch of searches by one step with array operations, however many rows of whatever kind it has.

`rule` states what it computes. `few_rows` does the same for small batches, and leaves odd steps to this path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Ids, Weights
from regard.server.search.candidates import Candidates, best_tokens, continuations, divide
from regard.server.search.hypothesis_store import HypothesisStore
from regard.server.search.ngram_blocking import NgramBlocking
from regard.server.search.rule import FLOOR, FinishedHypothesis, OutputVocabulary
from regard.server.search.searches import BeamGroup, Search, SearchTable
from regard.server.search.step import Advance, Reordering, StepOutput

Index = NDArray[np.intp]


class Forced(NamedTuple):
    """Rows whose target is given [row], their next tokens and what these cost."""

    rows: Index
    tokens: Ids
    log_probs: Weights


class _Survivors(NamedTuple):
    """Hypotheses of beams that go on, with the rows they follow and their newest tokens; and beams that are over."""

    slots: Index
    parents: Index
    tokens: Ids
    over: list[Search]


class ArrayPath:
    """The rule for all searches of a table at once."""

    def __init__(
        self, vocabulary: OutputVocabulary, table: SearchTable, store: HypothesisStore, blocking: NgramBlocking
    ) -> None:
        self._eos_id = vocabulary.eos_id
        self._fallback_id = vocabulary.fallback_id
        self._table = table
        self._store = store
        self._blocking = blocking

    def advance(self, step: StepOutput, forced: Forced | None) -> Advance:
        """Extend all searches by the token that follows in each row, in which what may not follow is -inf already."""
        table, slots, log_probs = self._table, step.slots, step.log_probs
        length = table.length.take(slots)
        token, picked, broken_rows = best_tokens(log_probs, self._fallback_id)
        if forced is not None:
            token[forced.rows], picked[forced.rows] = forced.tokens, forced.log_probs
            broken_rows = np.union1d(broken_rows, forced.rows[~(forced.log_probs < np.inf)])
        attention = step.attention
        if attention is not None:
            self._store.keep_attention(slots, length, attention)
            # One NaN or infinity makes the sum of all of them so, too; only then it matters whose it is.
            if not np.isfinite(np.add.reduce(attention, axis=None)):
                broken_rows = np.union1d(broken_rows, np.flatnonzero(~np.isfinite(attention.sum(axis=(1, 2, 3)))))
        broken: list[Search] = []
        if len(broken_rows):
            broken = table.owners(slots[broken_rows])
            log_probs[broken_rows] = 0.0
        table.length[slots] = length + 1
        over: list[Search] = []
        if table.singles:
            over = self._advance_singles(step, forced, length, token, picked)
        reordered: Reordering | None = None
        if table.groups:
            survivors = [self._advance_beams(group, step, token) for group in table.groups.values()]
            for part in survivors:
                over.extend(part.over)
            reordered = self._reorder(survivors, step)
        if broken:
            over = [search for search in over if search not in broken]
        return Advance(over, broken, reordered)

    def _advance_singles(
        self, step: StepOutput, forced: Forced | None, length: Ids, token: Ids, picked: Weights
    ) -> list[Search]:
        """Extend greedy searches and forced targets, and return those that are over.

        Rows of beams are written as well, since leaving them out costs more; `_advance_beams` corrects them.
        """
        table, store, slots = self._table, self._store, step.slots
        store.tokens[slots, length] = token
        store.log_probs[slots, length] = picked
        if table.blocked:
            self._blocking.append(slots, length, token)
        step.next_tokens[:] = token
        ended = token == self._eos_id
        if forced is not None:
            ended[forced.rows] = False
        last = ended | (length + 1 >= table.limit.take(slots))
        if table.groups:
            last &= table.single[slots]
        over: list[Search] = []
        for row in last.nonzero()[0].tolist():
            search = table.owner(int(slots[row]))
            search.finished.append(
                FinishedHypothesis(
                    parent=0,
                    length=int(length[row]),
                    token=int(token[row]),
                    log_prob=float(picked[row]),
                    ended=bool(ended[row]),
                    total=0.0,
                )
            )
            over.append(search)
        return over

    def _advance_beams(self, group: BeamGroup, step: StepOutput, best: Ids) -> _Survivors:
        """Extend every hypothesis of a group of beams; `best` is the best token of each row.

        The lengths of slots that had a row count the new token already.
        """
        table, beams, slots = self._table, group.beams, group.slots
        totals = table.total.take(slots)
        # A dead hypothesis may have no row; -1 reads that of another, which its total of -inf makes void.
        rows = step.row_of_slot.take(slots)
        candidates = continuations(step.log_probs, best, rows, totals, eos_id=self._eos_id)
        length = table.length.take(slots[:, 0])
        at_limit = length >= table.limit.take(slots[:, 0])
        # As many candidates as hypotheses, all of which exist, are all that go on.
        if candidates.token.shape[1] == beams and candidates.total.min() > -np.inf and not at_limit.any():
            self._note(slots, length[:, None], candidates)
            return _Survivors(slots.reshape(-1), candidates.row.reshape(-1), candidates.token.reshape(-1), [])

        self._revive(group, candidates, rows, totals)
        survivors = divide(candidates, beams=beams, eos_id=self._eos_id)
        over = at_limit | ~survivors.alive[:, 0]
        for place in np.flatnonzero(over | survivors.ended.any(axis=1)).tolist():
            finished = group.members[place].finished
            self._finish(
                finished,
                candidates.pick(place),
                # At the limit, hypotheses that are cut fill the places that those which end leave.
                np.flatnonzero(survivors.ended[place]).tolist()
                + (survivors.order[place][survivors.alive[place]].tolist() if at_limit[place] else []),
                most=beams,
                length=int(length[place]) - 1,
            )
            over[place] |= len(finished) >= beams

        alive = survivors.alive & ~over[:, None]
        places = slots[:, : alive.shape[1]][alive]
        # From here on one entry for each hypothesis that goes on.
        member, rank = np.nonzero(alive)
        rank = survivors.order[member, rank]
        chosen = candidates.pick((member, rank))
        table.total[slots] = -np.inf
        self._note(places, length[member], chosen)
        return _Survivors(
            places, chosen.row, chosen.token, [group.members[place] for place in np.flatnonzero(over).tolist()]
        )

    def _note(self, slots: Index, length: Ids, chosen: Candidates) -> None:
        """Write down by which token of which parent each of these slots goes on, as its number `length`, from 1."""
        self._store.extend(slots, length - 1, chosen.token, np.maximum(chosen.log_prob, FLOOR), chosen.parent)
        self._table.length[slots] = length
        self._table.total.put(slots, chosen.total)

    def _revive(self, group: BeamGroup, candidates: Candidates, rows: Index, totals: NDArray[np.float64]) -> None:
        """Let a beam whose rows allow nothing, and which has found nothing yet, go on with the fallback token."""
        for place in np.flatnonzero(candidates.total[:, 0] == -np.inf).tolist():
            if group.members[place].finished:
                continue
            best = int(totals[place].argmax())
            candidates.row[place, 0] = rows[place, best]
            candidates.parent[place, 0] = best
            candidates.token[place, 0] = self._fallback_id
            candidates.total[place, 0] = totals[place, best] + FLOOR
            candidates.log_prob[place, 0] = FLOOR

    def _finish(
        self,
        finished: list[FinishedHypothesis],
        candidates: Candidates,
        ranks: Sequence[int],
        *,
        most: int,
        length: int,
    ) -> None:
        """Add those of the candidates [candidate] of one beam that are finished by this step, up to `most` in all."""
        finished.extend(
            FinishedHypothesis(
                parent=int(candidates.parent[rank]),
                length=length,
                token=int(candidates.token[rank]),
                log_prob=float(max(candidates.log_prob[rank], FLOOR)),
                ended=bool(candidates.token[rank] == self._eos_id),
                total=float(candidates.total[rank]),
            )
            for rank in ranks[: most - len(finished)]
        )

    def _reorder(self, survivors: Sequence[_Survivors], step: StepOutput) -> Reordering:
        slots = _joined([part.slots for part in survivors])
        parents = _joined([part.parents for part in survivors])
        tokens = _joined([part.tokens for part in survivors])
        if self._table.blocked:
            self._blocking.follow(slots, step.slots[parents], self._table.length[slots] - 1, tokens)
        mates = _joined([group.slots.reshape(-1) for group in self._table.groups.values()])
        return Reordering(slots, parents, tokens, mates)


def _joined(parts: Sequence[Index]) -> Index:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)

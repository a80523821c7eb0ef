"""Lets a few beams go on number by number: for one sentence alone that takes a fraction of the time of arrays.

Does not know requests, greedy rows or given targets, nor what is to be done about scores that are no numbers or where
too little is allowed: of such steps it keeps its hands off, and `regard.server.search.beams` does them with all beams
at once. The rule is that of `regard.server.search.candidates`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.engine.rows import RowBuffers
from regard.server.engine.slots import Running, SlotTable
from regard.server.request import Weights
from regard.server.search.candidates import FLOOR
from regard.server.search.hypothesis_store import History, Leaf

# Up to so many hypotheses arrays cost more than they save.
FEW_IN_BEAMS = 16
# Rows with more entries are worth finding out what they have in common, which need not be moved.
_FEW_ENTRIES = 32

_FLOOR = float(FLOOR)


class _Beam(NamedTuple):
    """A beam before its step.

    Attributes:
        slots, rows: of its hypotheses, living ones first; a dead one may have no row, -1.
        totals: summed log-probabilities; -inf for a dead one.
        length: tokens so far.
    """

    running: Running
    slots: list[int]
    rows: list[int]
    totals: list[float]
    length: int


class _Continuation(NamedTuple):
    """A token after a hypothesis, the sum of all log-probabilities up to it, and its own."""

    parent: int
    token: int
    total: float
    log_probability: float


class _Taken(NamedTuple):
    """A score that became -inf because its token was taken."""

    row: int
    token: int
    score: float


def advance_few_beams(
    beams: Iterable[Running],
    rows: RowBuffers,
    table: SlotTable,
    history: History,
    *,
    never: slice | NDArray[np.intp],
    end: int,
) -> list[Running] | None:
    """Extend every hypothesis of all beams after a step; there are no rows but theirs.

    Args:
        never: tokens that are never generated.
        end: the end of sentence, forbidden before a beam's least length.

    Returns:
        beams whose search has ended, with all their leaves; None if something is out of the ordinary, and then nothing
        was written down, though what is forbidden has lost its score.
    """
    scores, attention = rows.scores[: rows.count], rows.attention
    if attention is not None and not math.isfinite(np.add.reduce(attention[: rows.count], axis=None)):
        return None
    scores[:, never] = -np.inf
    read = [_read(running, rows, table) for running in beams]
    for beam in read:
        if beam.length < table.minimum.item(beam.slots[0]):
            for row in beam.rows:
                if row >= 0:
                    scores[row, end] = -math.inf
    best: list[int] = scores.argmax(axis=1).tolist()
    # NaN is not less than anything.
    if not all(scores.item(row, token) < math.inf for row, token in enumerate(best)):
        return None
    taken: list[_Taken] = []
    found: list[tuple[_Beam, list[_Continuation], list[_Continuation]]] = []
    for beam in read:
        ended, going = _search(beam, scores, best, taken, end=end)
        if len(going) < len(beam.slots):
            for row, token, score in taken:
                scores[row, token] = score
            return None
        found.append((beam, ended, going))

    over: list[Running] = []
    growing: list[tuple[_Beam, list[_Continuation]]] = []
    for beam, ended, going in found:
        if attention is not None:
            for slot, row in zip(beam.slots, beam.rows, strict=True):
                if row >= 0:
                    history.look(slot, beam.length, attention[row])
        at_limit = beam.length + 1 >= table.limit.item(beam.slots[0])
        _finish(beam, ended, ended=True)
        if at_limit:
            # Hypotheses that are cut fill the places that those which end leave.
            _finish(beam, going, ended=False)
        if at_limit or len(beam.running.leaves) == len(beam.slots):
            over.append(beam.running)
            continue
        for slot, (parent, token, total, log_probability) in zip(beam.slots, going, strict=True):
            history.tokens[slot, beam.length] = token
            history.log_probabilities[slot, beam.length] = log_probability
            history.parents[slot, beam.length] = parent
            table.length[slot] = beam.length + 1
            table.total[slot] = total
        if min(beam.rows) < 0:
            growing.append((beam, going))
        else:
            _inherit(beam, going, rows)
    if growing:
        _grow(growing, rows)
    return over


def _read(running: Running, rows: RowBuffers, table: SlotTable) -> _Beam:
    slots: list[int] = running.slots.tolist()
    held = [rows.row_of_slot.item(slot) for slot in slots]
    totals = [table.total.item(slot) for slot in slots]
    return _Beam(running, slots, held, totals, table.length.item(slots[0]))


def _search(
    beam: _Beam, scores: Weights, best: list[int], taken: list[_Taken], *, end: int
) -> tuple[list[_Continuation], list[_Continuation]]:
    """Return the continuations of a beam that end and those that go on, best first.

    Those that go on are as many as it has hypotheses, or fewer if something is out of the ordinary. What is taken from
    the scores is noted in `taken`.
    """
    width = len(beam.slots)
    living = [row for row, total in zip(beam.rows, beam.totals, strict=True) if total > -math.inf]
    tokens = [best[row] for row in living]
    values = [scores.item(row, token) for row, token in zip(living, tokens, strict=True)]
    worths = [value + total for value, total in zip(values, beam.totals, strict=False)]
    ended: list[_Continuation] = []
    going: list[_Continuation] = []
    while True:
        worth = max(worths)
        parent = worths.index(worth)
        token, value = tokens[parent], values[parent]
        if value < _FLOOR:
            return ended, going
        if token != end:
            going.append(_Continuation(parent, token, worth, value))
            if len(going) == width:
                return ended, going
        elif len(ended) + len(going) < width:
            ended.append(_Continuation(parent, token, worth, value))
        row = living[parent]
        line = scores[row]
        taken.append(_Taken(row, token, value))
        line[token] = -math.inf
        tokens[parent] = token = int(line.argmax())
        values[parent] = value = line.item(token)
        worths[parent] = value + beam.totals[parent]


def _finish(beam: _Beam, continuations: list[_Continuation], *, ended: bool) -> None:
    """Add leaves of a beam, up to as many as it is wide."""
    leaves = beam.running.leaves
    for parent, token, total, log_probability in continuations[: len(beam.slots) - len(leaves)]:
        leaves.append(
            Leaf(
                parent=parent,
                length=beam.length,
                token=token,
                log_probability=log_probability,
                ended=ended,
                total=total,
            )
        )


def _grow(growing: Sequence[tuple[_Beam, list[_Continuation]]], rows: RowBuffers) -> None:
    """Let the hypotheses of some beams go on, of which not all have rows."""
    slots = np.concatenate([beam.running.slots for beam, _ in growing])
    rows.pick(slots, np.array([beam.rows[one.parent] for beam, going in growing for one in going]), slots)
    rows.token[rows.row_of_slot.take(slots)] = [one.token for _, going in growing for one in going]


def _inherit(beam: _Beam, going: list[_Continuation], rows: RowBuffers) -> None:
    """Let the hypotheses of a beam go on, each in a row with the state of its parent's, as `RowBuffers.pick` does."""
    parents = [beam.rows[one.parent] for one in going]
    followed = set(parents)
    free = [row for row in beam.rows if row not in followed]
    moves: list[tuple[int, int]] = []
    for slot, parent, one in zip(beam.slots, parents, going, strict=True):
        row = parent
        # The first follower takes over the row itself.
        if parent in followed:
            followed.remove(parent)
        else:
            row = free[len(moves)]
            moves.append((parent, row))
        rows.row_of_slot[slot] = row
        rows.slots[row] = slot
        rows.token[row] = one.token
    if moves and rows.state.banks and rows.state.filled.item(moves[0][0]) > _FEW_ENTRIES:
        sources, targets = np.array(moves, dtype=np.intp).T
        rows.state.copy(sources, targets)
    else:
        for source, target in moves:
            rows.state.copy_one(source, target)

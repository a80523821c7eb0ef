"""Advances a few greedy rows or a few beams by one step number by number: a fast path for small batches.

`rule` states what it computes. Forced targets, n-gram blocking, NaN and rows in which too little is allowed are left to
`array_path`: both functions then return None and have written nothing down. `docs/engine.md` has what they save.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.server.request import Weights
from regard.server.search.hypothesis_store import HypothesisStore
from regard.server.search.rule import FLOOR, FinishedHypothesis
from regard.server.search.searches import Search, SearchTable
from regard.server.search.step import Advance, FewReordered, StepOutput

_FLOOR = float(FLOOR)


def advance_few_greedy_rows(
    step: StepOutput, table: SearchTable, store: HypothesisStore, *, eos_id: int
) -> Advance | None:
    """Extend every row by its best token; there are only greedy searches."""
    log_probs, attention = step.log_probs, step.attention
    if attention is not None and not math.isfinite(np.add.reduce(attention, axis=None)):
        return None
    slots: list[int] = step.slots.tolist()
    tokens: list[int] = []
    picked: list[float] = []
    for row in range(len(slots)):
        of_row = log_probs[row]
        token = int(of_row.argmax())
        best = of_row.item(token)
        # NaN fails this comparison, too.
        if not _FLOOR <= best < math.inf:
            return None
        tokens.append(token)
        picked.append(best)
    finished: list[Search] = []
    for row, slot in enumerate(slots):
        length, token = table.length.item(slot), tokens[row]
        if attention is not None:
            store.keep_attention(slot, length, attention[row])
        store.tokens[slot, length] = token
        store.log_probs[slot, length] = picked[row]
        table.length[slot] = length + 1
        step.next_tokens[row] = token
        if token == eos_id or length + 1 >= table.limit.item(slot):
            search = table.owner(slot)
            search.finished.append(FinishedHypothesis(0, length, token, picked[row], token == eos_id, 0.0))
            finished.append(search)
    return Advance(finished, [], None)


class _Beam(NamedTuple):
    """A beam before its step.

    Attributes:
        slots, rows: of its hypotheses, living ones first; a dead one may have no row, -1.
        totals: summed log-probabilities; -inf for a dead one.
        length: tokens so far.
    """

    search: Search
    slots: list[int]
    rows: list[int]
    totals: list[float]
    length: int


class _Continuation(NamedTuple):
    """A token after a hypothesis, the sum of all log-probabilities up to it, and its own."""

    parent: int
    token: int
    total: float
    log_prob: float


class _Taken(NamedTuple):
    """A log-probability that was overwritten by -inf because its token was taken."""

    row: int
    token: int
    log_prob: float


def advance_few_beams(step: StepOutput, table: SearchTable, store: HypothesisStore, *, eos_id: int) -> Advance | None:
    """Extend every hypothesis of all beams; there are only beams."""
    log_probs, attention = step.log_probs, step.attention
    if attention is not None and not math.isfinite(np.add.reduce(attention, axis=None)):
        return None
    best: list[int] = log_probs.argmax(axis=1).tolist()
    # NaN fails this comparison, too.
    if not all(log_probs.item(row, token) < math.inf for row, token in enumerate(best)):
        return None
    taken: list[_Taken] = []
    found: list[tuple[_Beam, list[_Continuation], list[_Continuation]]] = []
    for search in table.searches:
        beam = _read(search, step, table)
        ended, alive = _continue(beam, log_probs, best, taken, eos_id=eos_id)
        if len(alive) < len(beam.slots):
            for row, token, log_prob in taken:
                log_probs[row, token] = log_prob
            return None
        found.append((beam, ended, alive))

    finished: list[Search] = []
    reordered = FewReordered([], [], [])
    for beam, ended, alive in found:
        if attention is not None:
            for slot, row in zip(beam.slots, beam.rows, strict=True):
                if row >= 0:
                    store.keep_attention(slot, beam.length, attention[row])
        at_limit = beam.length + 1 >= table.limit.item(beam.slots[0])
        _finish(beam, ended, ended=True)
        if at_limit:
            # Hypotheses that are cut fill the places that those which end leave.
            _finish(beam, alive, ended=False)
        if at_limit or len(beam.search.finished) == len(beam.slots):
            finished.append(beam.search)
            continue
        for slot, (parent, token, total, log_prob) in zip(beam.slots, alive, strict=True):
            store.tokens[slot, beam.length] = token
            store.log_probs[slot, beam.length] = log_prob
            store.parents[slot, beam.length] = parent
            table.length[slot] = beam.length + 1
            table.total[slot] = total
            reordered.slots.append(slot)
            reordered.parents.append(beam.rows[parent])
            reordered.tokens.append(token)
    return Advance(finished, [], reordered if reordered.slots else None)


def _read(search: Search, step: StepOutput, table: SearchTable) -> _Beam:
    slots: list[int] = search.slots.tolist()
    rows = [step.row_of_slot.item(slot) for slot in slots]
    totals = [table.total.item(slot) for slot in slots]
    return _Beam(search, slots, rows, totals, table.length.item(slots[0]))


def _continue(
    beam: _Beam, log_probs: Weights, best: Sequence[int], taken: list[_Taken], *, eos_id: int
) -> tuple[list[_Continuation], list[_Continuation]]:
    """Return the continuations of a beam that are finished and those that stay alive, best first.

    Those that stay alive are as many as it has hypotheses; fewer if the rows do not allow that many. What was
    overwritten in the log-probabilities is added to `taken`.
    """
    width = len(beam.slots)
    living = [row for row, total in zip(beam.rows, beam.totals, strict=True) if total > -math.inf]
    tokens = [best[row] for row in living]
    values = [log_probs.item(row, token) for row, token in zip(living, tokens, strict=True)]
    totals = [value + total for value, total in zip(values, beam.totals, strict=False)]
    ended: list[_Continuation] = []
    alive: list[_Continuation] = []
    while True:
        # Ties: the first parent, and of its equal tokens the first.
        total = max(totals)
        parent = totals.index(total)
        token, value = tokens[parent], values[parent]
        if value < _FLOOR:
            return ended, alive
        if token != eos_id:
            alive.append(_Continuation(parent, token, total, value))
            if len(alive) == width:
                return ended, alive
        elif len(ended) + len(alive) < width:
            ended.append(_Continuation(parent, token, total, value))
        row = living[parent]
        of_row = log_probs[row]
        taken.append(_Taken(row, token, value))
        of_row[token] = -math.inf
        tokens[parent] = token = int(of_row.argmax())
        values[parent] = value = of_row.item(token)
        totals[parent] = value + beam.totals[parent]


def _finish(beam: _Beam, continuations: Sequence[_Continuation], *, ended: bool) -> None:
    """Add finished hypotheses of a beam, up to as many as it is wide."""
    finished = beam.search.finished
    for parent, token, total, log_prob in continuations[: len(beam.slots) - len(finished)]:
        finished.append(FinishedHypothesis(parent, beam.length, token, log_prob, ended, total))

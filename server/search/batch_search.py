"""Chooses the next token of every row of a pool after each step: the way into the search, whatever path it takes.

It decides tokens and how beams go on. Who is in the batch, and where rows lie, is decided by the pool.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.server.request import DecodeRequest, Hypothesis
from regard.server.search.array_path import ArrayPath, Forced
from regard.server.search.candidates import given_log_probs
from regard.server.search.few_rows import advance_few_beams, advance_few_greedy_rows
from regard.server.search.hypothesis_store import HypothesisStore
from regard.server.search.ngram_blocking import NgramBlocking
from regard.server.search.rule import OutputVocabulary, Slots
from regard.server.search.searches import Search, SearchTable
from regard.server.search.step import Advance, StepOutput

# Up to so many rows are searched number by number, which `python -m regard.benches.search_paths` compares.
FEW_GREEDY_ROWS = 4
FEW_HYPOTHESES = 16


class BatchSearch:
    """All searches of a pool, in at most `slots` slots, by the rule of `regard.server.search.rule`.

    Args:
        vocabulary: that all of them choose from.
        store: for what they generate, with the same slots.
        few_greedy_rows: most rows for which greedy searches leave the array path.
        few_hypotheses: most slots for which beams leave the array path.
    """

    def __init__(
        self,
        vocabulary: OutputVocabulary,
        store: HypothesisStore,
        *,
        slots: int,
        few_greedy_rows: int = FEW_GREEDY_ROWS,
        few_hypotheses: int = FEW_HYPOTHESES,
    ) -> None:
        self._vocabulary = vocabulary
        self._store = store
        self._few_greedy_rows = few_greedy_rows
        self._few_hypotheses = few_hypotheses
        self._table = SearchTable(slots)
        self._blocking = NgramBlocking(slots=slots, steps=store.steps, eos_id=vocabulary.eos_id)
        self._arrays = ArrayPath(vocabulary, self._table, store, self._blocking)
        columns = sorted(token for token in vocabulary.suppressed_ids if token < vocabulary.size)
        # A slice costs a fraction of what an index array does.
        self._suppressed: slice | NDArray[np.intp] = slice(0, len(columns))
        if columns != list(range(len(columns))):
            self._suppressed = np.array(columns, dtype=np.intp)

    def begin(self, request: DecodeRequest, slots: Slots, *, limit: int, positions: int) -> Search:
        """Begin the search for a request in slots that nobody owns.

        Args:
            slots: as many as `slots_needed` says; the first one has a row at the next step.
            limit: most tokens of a target; a forced one counts its end of sentence.
            positions: source positions, padding not counted.
        """
        search = Search(request=request, slots=slots, positions=positions)
        self._table.add(search, limit=limit)
        self._blocking.begin(slots, search.ngram)
        if request.forced_target is not None:
            self._store.force(int(slots[0]), request.forced_target)
        return search

    def end(self, searches: Sequence[Search]) -> None:
        """Forget searches, whether or not they are over."""
        self._table.remove(searches)

    def hypotheses(self, search: Search) -> tuple[Hypothesis, ...]:
        """Return what a search that is over has found, best first, at most n_best."""
        return self._store.read(search)

    def advance(self, step: StepOutput) -> Advance:
        """Choose the next token of every row, write it down, and tell which searches are over.

        These have to be ended by the caller.
        """
        table = self._table
        # Before anything is suppressed: a forced target may hold any token.
        forced = self._read_forced(step) if table.forced_targets else None
        self._suppress(step)
        advance: Advance | None = None
        if not table.forced_targets and not table.blocked:
            if not table.groups and len(step.slots) <= self._few_greedy_rows:
                advance = advance_few_greedy_rows(step, table, self._store, eos_id=self._vocabulary.eos_id)
            elif not table.singles and table.owned <= self._few_hypotheses:
                advance = advance_few_beams(step, table, self._store, eos_id=self._vocabulary.eos_id)
        # Few rows with NaN, or with too little that is allowed, are left to the array path.
        return self._arrays.advance(step, forced) if advance is None else advance

    def _read_forced(self, step: StepOutput) -> Forced:
        rows = np.flatnonzero(self._table.forced[step.slots])
        slots = step.slots[rows]
        tokens = self._store.tokens[slots, self._table.length[slots]]
        return Forced(rows, tokens, given_log_probs(step.log_probs, rows, tokens))

    def _suppress(self, step: StepOutput) -> None:
        """Make the log-probabilities of tokens that may not follow -inf."""
        table, log_probs, eos = self._table, step.log_probs, self._vocabulary.eos_id
        log_probs[:, self._suppressed] = -np.inf
        if not (table.held_back or table.blocked):
            return
        length = table.length.take(step.slots)
        ending = log_probs[:, eos].copy() if table.blocked else None
        if table.held_back:
            np.copyto(log_probs[:, eos], -np.inf, where=length < table.min_length.take(step.slots))
        if ending is not None:
            self._blocking.forbid(log_probs, step.slots, length, ending)

"""N-gram blocking: forbids tokens that would complete an n-gram which the hypothesis already contains.

`BatchSearch` tells it, slot by slot, what was generated, and has it make log-probabilities -inf before tokens are
chosen. See Paulus et al. 2017 (arXiv 1705.04304, section 2.5), where it is done for trigrams in summaries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Ids, Weights

Index = NDArray[np.intp]


class NgramBlocking:
    """What each slot has generated, and of how many tokens the n-grams are that must not come twice.

    Memory is used only once a request asks for it.

    Args:
        slots: how many.
        steps: most tokens of one.
        eos_id: the end of sentence; it is never forbidden here, so that a search can always stop.
    """

    def __init__(self, *, slots: int, steps: int, eos_id: int) -> None:
        self._shape = (slots, steps)
        self._eos_id = eos_id
        self._ngram: Ids = np.zeros(slots, dtype=np.int64)
        self._generated: Ids | None = None

    def begin(self, slots: Index, ngram: int) -> None:
        """Give slots to a search that has generated nothing and must not repeat n-grams of this size; 0 allows all."""
        self._ngram[slots] = ngram
        if ngram and self._generated is None:
            self._generated = np.zeros(self._shape, dtype=np.int64)

    def forbid(self, log_probs: Weights, slots: Index, length: Ids, ending: Weights) -> None:
        """Make those entries of log_probs [row, column] -inf that would repeat an n-gram.

        A row whose last allowed tokens this takes may end after all, even where its end of sentence is suppressed.

        Args:
            slots: of the rows.
            length: tokens that each has generated.
            ending: log-probability of the end of sentence of each row, whether or not it is allowed yet.
        """
        ngram = self._ngram[slots]
        # A shorter hypothesis has no n-gram yet that could come again.
        for size in np.unique(ngram[(ngram > 0) & (length >= ngram)]).tolist():
            rows = np.flatnonzero((ngram == size) & (length >= size))
            row, token = _repeating(self._read(slots[rows], int(length[rows].max())), length[rows], size)
            waiting = self._waiting_for_eos(log_probs, np.unique(rows[row]))
            # The row of a dead hypothesis, whose log-probabilities are void, holds what others generated, and a forced
            # target any id.
            log_probs[rows[row], np.minimum(token, log_probs.shape[1] - 1)] = -np.inf
            stuck = waiting[log_probs[waiting].max(axis=1) == -np.inf]
            log_probs[stuck, self._eos_id] = ending[stuck]

    def append(self, slots: Index, length: Ids, tokens: Ids) -> None:
        """Add a token to each of these slots, after `length` others."""
        if self._generated is not None:
            self._generated[slots, length] = tokens

    def follow(self, slots: Index, parents: Index, length: Ids, tokens: Ids) -> None:
        """Let each of these slots go on from what a parent's had generated, `length` tokens, with one more."""
        if self._generated is not None:
            self._generated[slots] = self._generated[parents]
            self._generated[slots, length] = tokens

    def _read(self, slots: Index, longest: int) -> Ids:
        if self._generated is None:
            raise RuntimeError("a search blocks n-grams and was not begun")
        return self._generated[slots, :longest]

    def _waiting_for_eos(self, log_probs: Weights, rows: Index) -> Index:
        """Return those rows that may not end yet and have tokens to go on with."""
        waiting = rows[log_probs[rows, self._eos_id] == -np.inf]
        return waiting[log_probs[waiting].max(axis=1) != -np.inf]


def _repeating(generated: Ids, length: Ids, size: int) -> tuple[Index, Ids]:
    """Return rows and tokens that would complete an n-gram of `size` tokens that its row already contains.

    Args:
        generated: tokens [row, place], of which the first `length` [row] count; each row has at least `size`.
    """
    starts = generated.shape[1] - size + 1
    rows: Index = np.arange(len(generated))
    # Where the row's last size - 1 tokens stand before, compared place by place.
    same: NDArray[np.bool_] = np.less_equal(np.arange(starts, dtype=np.int64) + size, length[:, None])
    for place in range(size - 1):
        last = generated[rows, length - (size - 1) + place]
        same &= generated[:, place : place + starts] == last[:, None]
    row, start = np.nonzero(same)
    return row, generated[row, start + size - 1]

"""Forbids tokens with which a hypothesis would say a run of tokens for the second time.

Does not know models, requests or how a search chooses: it is told what was chosen, slot by slot, and makes scores -inf.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Ids, Weights

Index = NDArray[np.intp]


class Repetition:
    """What each slot has said, and how long a run of it must not come twice.

    Memory is used only once a request asks for it.

    Args:
        slots: how many.
        steps: most tokens of one.
        end: the token that ends a target; it is never forbidden here, so that a search can always stop.
    """

    def __init__(self, *, slots: int, steps: int, end: int) -> None:
        self._shape = (slots, steps)
        self._end = end
        self._size: Ids = np.zeros(slots, dtype=np.int64)
        self._said: Ids | None = None

    def begin(self, slots: Index, size: int) -> None:
        """A search that has said nothing owns these slots; runs of `size` must not repeat, 0 allows all."""
        self._size[slots] = size
        if size and self._said is None:
            self._said = np.zeros(self._shape, dtype=np.int64)

    def forbid(self, scores: Weights, slots: Index, length: Ids, ending: Weights) -> None:
        """Make tokens of scores [row, vocabulary] -inf that would repeat a run.

        A row that would have nothing left because its end of sentence is forbidden, too, may end after all.

        Args:
            slots: of the rows.
            length: tokens that each has said.
            ending: log-probability of the end of sentence of each row, whether or not it is allowed yet.
        """
        size = self._size[slots]
        # A shorter hypothesis has no run yet that could come again.
        for each in np.unique(size[(size > 0) & (length >= size)]).tolist():
            rows = np.flatnonzero((size == each) & (length >= each))
            row, token = _repeating(self._read(slots[rows], int(length[rows].max())), length[rows], each)
            # The row of a dead hypothesis, whose scores are void, holds what others said, and a given target any id.
            scores[rows[row], np.minimum(token, scores.shape[1] - 1)] = -np.inf
            self._let_end(scores, np.unique(rows[row]), ending)

    def say(self, slots: Index, length: Ids, tokens: Ids) -> None:
        """Every one of these slots says a token after `length` others."""
        if self._said is not None:
            self._said[slots, length] = tokens

    def follow(self, slots: Index, parents: Index, length: Ids, tokens: Ids) -> None:
        """Every one of these slots goes on from what a parent's had said, `length` tokens, with one more."""
        if self._said is not None:
            self._said[slots] = self._said[parents]
            self._said[slots, length] = tokens

    def _read(self, slots: Index, longest: int) -> Ids:
        if self._said is None:
            raise RuntimeError("a search forbids repeating and was not begun")
        return self._said[slots, :longest]

    def _let_end(self, scores: Weights, rows: Index, ending: Weights) -> None:
        """Allow the end of sentence again where nothing else is left."""
        waiting = rows[scores[rows, self._end] == -np.inf]
        if len(waiting):
            stuck = waiting[scores[waiting].max(axis=1) == -np.inf]
            scores[stuck, self._end] = ending[stuck]


def _repeating(said: Ids, length: Ids, size: int) -> tuple[Index, Ids]:
    """Return rows and tokens that would complete a run of `size` tokens that was said before.

    Args:
        said: tokens [row, place], of which the first `length` [row] count; each row has at least `size`.
    """
    starts = said.shape[1] - size + 1
    rows: Index = np.arange(len(said))
    # A run that was said before, place by place against the last tokens of the row.
    same: NDArray[np.bool_] = np.less_equal(np.arange(starts, dtype=np.int64) + size, length[:, None])
    for place in range(size - 1):
        last = said[rows, length - (size - 1) + place]
        same &= said[:, place : place + starts] == last[:, None]
    row, start = np.nonzero(same)
    return row, said[row, start + size - 1]

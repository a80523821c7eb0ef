"""Chooses tokens from scores: the best one of a row for greedy search, the best continuations of a beam.

Does not know rows that come and go, models, histories or requests; arrays in, arrays out, each row and each beam by
itself.

The rule of a beam, the same as in the reference decoder that models are evaluated with: every step takes the best
2 * beam_size continuations of the live hypotheses by summed log-probability. One that ends is finished if it ranks
among the best beam_size; the best beam_size that do not end stay alive. A search is over when beam_size hypotheses are
finished, when none is alive, or when the live ones have max_length tokens: then they fill the places that are left,
best first. A beam of 1 is greedy search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from server.request import Ids, Weights

Totals = NDArray[np.float64]
Flags = NDArray[np.bool_]

# No log-probability that leaves is below this one. A row that allows nothing at all goes on with an ordinary token at
# this price.
FLOOR = np.float32(-1e4)


class Candidates(NamedTuple):
    """Continuations of beams, best first; [beam group, candidate]. Those that do not exist have a total of -inf."""

    parent: Ids
    token: Ids
    total: Totals


class Survivors(NamedTuple):
    """What becomes of candidates.

    Attributes:
        ended: [beam group, candidate], those that end and rank among the best beam_size.
        order: [beam group, survivor], at most beam_size candidates that go on, best first.
        alive: [beam group, survivor], False where `order` had nothing left to name.
    """

    ended: Flags
    order: NDArray[np.intp]
    alive: Flags


def best_tokens(scores: Weights, ordinary: int) -> tuple[Ids, Weights, Flags]:
    """Return each row's best token, its log-probability, and whether the row is sound: no NaN and no +inf in it.

    Args:
        scores: log-probabilities [row, vocabulary], -inf where a token is not allowed.
        ordinary: taken where nothing is allowed.
    """
    token = scores.argmax(axis=1)
    starts: Ids = np.arange(0, scores.size, scores.shape[1], dtype=np.int64)
    places: Ids = np.add(token, starts)
    best = scores.reshape(-1).take(places)
    # Where nothing is out of the ordinary two comparisons say so; NaN is not more or less than anything.
    if best.min(initial=0.0) >= FLOOR and best.max(initial=-np.inf) < np.inf:
        return token, best, np.ones(len(best), dtype=np.bool_)
    # argmax finds the first NaN of a row before any number.
    sound = best < np.inf
    token[best == -np.inf] = ordinary
    return token, np.maximum(best, FLOOR), sound


def given_scores(scores: Weights, rows: NDArray[np.intp], tokens: Ids) -> Weights:
    """Return the log-probabilities [row] of given tokens [row] in the given rows; one without a column costs FLOOR."""
    width = scores.shape[1]
    found = scores[rows, np.minimum(tokens, width - 1)]
    return np.maximum(np.where(tokens < width, found, FLOOR), FLOOR)


class TopTokens:
    """Finds the best continuations of beams over a vocabulary of one size.

    Columns are folded into groups whose maxima are cheap to make; as many groups as candidates are wanted, those with
    the largest maxima, hold all that can be among them.
    """

    def __init__(self, vocabulary: int) -> None:
        self._fold = _Fold(vocabulary)

    def maxima(self, scores: Weights) -> Weights:
        """Return the maxima of small groups of columns [row, group]; NaN where there is one in a group."""
        return self._fold.maxima(scores)

    def candidates(
        self, scores: Weights, maxima: Weights, rows: NDArray[np.intp], totals: Totals, count: int
    ) -> Candidates:
        """Return the best `count` continuations of each beam group, or as many as there are columns for.

        Args:
            scores: log-probabilities [row, vocabulary] without NaN or +inf.
            maxima: of them, as `maxima` returns them.
            rows: which of them continue each hypothesis [beam group, beam].
            totals: summed log-probabilities of the hypotheses [beam group, beam]; -inf for a dead one.
        """
        # Everything is taken by places in flat arrays, which costs a fraction of what several index arrays do.
        fold, (members, beams) = self._fold, rows.shape
        member: NDArray[np.intp] = np.arange(members, dtype=np.intp)[:, None]
        grouped: Totals = (maxima.take(rows, axis=0) + totals[:, :, None]).reshape(members, -1)
        picked = _largest(grouped, count)
        beam: NDArray[np.intp] = picked // fold.groups
        group = picked - beam * fold.groups
        hypothesis: NDArray[np.intp] = np.add(beam, member * beams)
        columns: NDArray[np.intp] = fold.columns.take(group, axis=0)
        starts: NDArray[np.intp] = np.multiply(rows.take(hypothesis), scores.shape[1])
        places: NDArray[np.intp] = np.add(columns, starts[:, :, None])
        values: Totals = scores.reshape(-1).take(places) + totals.take(hypothesis)[:, :, None]
        if fold.rest:
            values += fold.absent.take(group, axis=0)
        values = values.reshape(members, -1)
        best = _largest(values, count)
        found: NDArray[np.intp] = np.add(best, member * values.shape[1])
        token, total = columns.take(found), values.take(found)
        origin: NDArray[np.intp] = np.add(best // columns.shape[2], member * picked.shape[1])
        parent = beam.take(origin)
        # Equal totals are ordered by parent and token, so that nothing depends on how the groups were partitioned.
        ranked = np.lexsort((parent * scores.shape[1] + token, -total), axis=1)
        order: NDArray[np.intp] = np.add(ranked, member * best.shape[1])
        return Candidates(parent.take(order), token.take(order), total.take(order))


class _Fold:
    """Columns in groups of `_SIZE`, of which the first may have one more.

    Attributes:
        groups: how many.
        columns: of each group [group, column].
        rest: groups that have one column more.
        absent: -inf for the columns that the other groups lack [group, column]; 0 elsewhere.
    """

    _SIZE = 16

    def __init__(self, width: int) -> None:
        self._size = self._SIZE if width >= self._SIZE * self._SIZE // 2 else 1
        self.groups = width // self._size
        self.rest = width - self.groups * self._size
        self.columns = np.arange(self.groups)[:, None] + self.groups * np.arange(self._size + bool(self.rest))
        self.absent = np.zeros(self.columns.shape)
        if self.rest:
            self.absent[self.rest :, self._size] = -np.inf
            self.columns[self.rest :, self._size] = 0

    def maxima(self, values: Weights) -> Weights:
        """Return the largest value of each group [row, group]."""
        if self._size == 1:
            return values
        whole = self.groups * self._size
        maxima = values[:, :whole].reshape(-1, self._size, self.groups).max(axis=1)
        if self.rest:
            np.maximum(maxima[:, : self.rest], values[:, whole:], out=maxima[:, : self.rest])
        return maxima


def _largest(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    width = values.shape[1]
    if count >= width:
        everything: NDArray[np.intp] = np.arange(width, dtype=np.intp)
        return np.broadcast_to(everything, values.shape)
    return np.argpartition(values, width - count, axis=1)[:, width - count :]


def divide(candidates: Candidates, *, beams: int, end: int) -> Survivors:
    """Tell the candidates that end from those that go on."""
    exists = candidates.total > -np.inf
    ends = candidates.token == end
    goes_on = exists & ~ends
    order = np.argsort(~goes_on, axis=1, kind="stable")[:, :beams]
    ended = exists & ends
    ended[:, beams:] = False
    return Survivors(ended, order, goes_on[np.arange(len(order))[:, None], order])

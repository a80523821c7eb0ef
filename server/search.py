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
    best = scores[np.arange(len(scores)), token]
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

    _FOLD = 16

    def __init__(self, vocabulary: int) -> None:
        self._fold = self._FOLD if vocabulary >= self._FOLD * self._FOLD else 1
        self._groups = vocabulary // self._fold
        rest = vocabulary - self._groups * self._fold
        columns = np.arange(self._groups)[:, None] + self._groups * np.arange(self._fold + 1)
        # Only the first `rest` groups have a last column.
        self._absent = np.zeros(columns.shape)
        self._absent[rest:, self._fold] = -np.inf
        columns[rest:, self._fold] = 0
        self._columns = columns

    def candidates(self, scores: Weights, rows: NDArray[np.intp], totals: Totals, count: int) -> Candidates:
        """Return the best `count` continuations of each beam group, or as many as there are columns for.

        Args:
            scores: log-probabilities [row, vocabulary] without NaN or +inf.
            rows: which of them continue each hypothesis [beam group, beam].
            totals: summed log-probabilities of the hypotheses [beam group, beam]; -inf for a dead one.
        """
        members = len(rows)
        member: NDArray[np.intp] = np.arange(members, dtype=np.intp)[:, None]
        whole = self._groups * self._fold
        maxima = scores[:, :whole].reshape(-1, self._fold, self._groups).max(axis=1)
        rest = scores.shape[1] - whole
        if rest:
            np.maximum(maxima[:, :rest], scores[:, whole:], out=maxima[:, :rest])
        grouped = (maxima[rows] + totals[:, :, None]).reshape(members, -1)
        picked = _largest(grouped, count)
        beam, group = picked // self._groups, picked % self._groups
        columns = self._columns[group]
        row, total = rows[member, beam], totals[member, beam]
        values = (scores[row[:, :, None], columns] + total[:, :, None] + self._absent[group]).reshape(members, -1)
        best = _largest(values, count)
        total = values[member, best]
        parent = beam[member, best // columns.shape[2]]
        token = columns.reshape(members, -1)[member, best]
        # Equal totals are ordered by parent and token, so that nothing depends on how the groups were partitioned.
        order = np.lexsort((parent * scores.shape[1] + token, -total), axis=1)
        return Candidates(parent[member, order], token[member, order], total[member, order])


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

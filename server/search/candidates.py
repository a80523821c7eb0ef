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

from regard.server.request import Ids, Weights

Totals = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]

NO_ROWS: Rows = np.zeros(0, dtype=np.intp)

# No log-probability that leaves is below this one. A row that allows nothing at all goes on with an ordinary token at
# this price.
FLOOR = np.float32(-1e4)


class Candidates(NamedTuple):
    """Continuations of beams, best first; [beam group, candidate]. Those that do not exist have a total of -inf.

    Attributes:
        row: of the scores that it was found in.
        parent: number of the hypothesis that it continues.
        total: sum of all log-probabilities.
        log_probability: of the token.
    """

    row: Rows
    parent: Ids
    token: Ids
    total: Totals
    log_probability: Weights

    def pick(self, where: Any) -> Candidates:
        """Return those that an index names."""
        return Candidates(
            self.row[where], self.parent[where], self.token[where], self.total[where], self.log_probability[where]
        )


class Survivors(NamedTuple):
    """What becomes of candidates.

    Attributes:
        ended: [beam group, candidate], those that end and rank among the best beam_size.
        order: [beam group, survivor], at most beam_size candidates that go on, best first.
        alive: [beam group, survivor], False where `order` had nothing left to name.
    """

    ended: Flags
    order: Rows
    alive: Flags


def best_tokens(scores: Weights, ordinary: int) -> tuple[Ids, Weights, Rows]:
    """Return each row's best token and its log-probability, and which rows are unsound: with NaN or +inf in them.

    Args:
        scores: log-probabilities [row, vocabulary], -inf where a token is not allowed.
        ordinary: taken where nothing is allowed.
    """
    token = scores.argmax(axis=1)
    starts: Ids = np.arange(0, scores.size, scores.shape[1], dtype=np.int64)
    best = scores.reshape(-1).take(np.add(token, starts))
    # Where nothing is out of the ordinary two comparisons say so; NaN is not more or less than anything.
    if np.minimum.reduce(best) >= FLOOR and np.maximum.reduce(best) < np.inf:
        return token, best, NO_ROWS
    # argmax finds the first NaN of a row before any number.
    unsound = np.flatnonzero(~(best < np.inf))
    token[best == -np.inf] = ordinary
    return token, np.maximum(best, FLOOR), unsound


def given_scores(scores: Weights, rows: Rows, tokens: Ids) -> Weights:
    """Return the log-probabilities [row] of given tokens [row] in the given rows; one without a column costs FLOOR."""
    width = scores.shape[1]
    found = scores[rows, np.minimum(tokens, width - 1)]
    return np.maximum(np.where(tokens < width, found, FLOOR), FLOOR)


def continuations(scores: Weights, best: Ids, rows: Rows, totals: Totals, *, end: int) -> Candidates:
    """Return the best continuations of each beam group, down to the one with which every group has enough.

    Enough are as many that do not end as the group has hypotheses; twice as many in all are always enough. One after
    the other is taken from what is left: the score of what was taken becomes -inf, and only its row is searched again.

    Args:
        scores: log-probabilities [row, vocabulary] without NaN or +inf; what was taken from them is gone.
        best: each row's best token.
        rows: which of them continue each hypothesis [beam group, beam], those of living ones all different.
        totals: summed log-probabilities of the hypotheses [beam group, beam]; -inf for a dead one, which the first of
            a group never is.
    """
    members, beams = len(rows), rows.shape[1]
    most = 2 * beams
    # Everything is taken by places in flat arrays, which costs a fraction of what several index arrays do.
    flat = scores.reshape(-1)
    starts: Rows = np.multiply(rows, scores.shape[1])
    token = best.take(rows)
    score = flat.take(np.add(starts, token))
    worth: Totals = np.add(score, totals)
    first: Rows = np.arange(0, members * beams, beams, dtype=np.intp)
    found = Candidates(
        np.empty((members, most), dtype=np.intp),
        np.empty((members, most), dtype=np.int64),
        np.empty((members, most), dtype=np.int64),
        np.empty((members, most), dtype=np.float64),
        np.empty((members, most), dtype=np.float32),
    )
    for rank in range(most):
        # Of equal ones that of the first parent, and of its equal tokens the first.
        parent = worth.argmax(axis=1)
        place: Rows = np.add(parent, first)
        taken = token.take(place)
        row = rows.take(place)
        found.row[:, rank] = row
        found.parent[:, rank] = parent
        found.token[:, rank] = taken
        found.total[:, rank] = worth.take(place)
        found.log_probability[:, rank] = score.take(place)
        if rank + 1 >= beams and _all_have(found.token[:, : rank + 1], beams, end):
            return found.pick((slice(None), slice(rank + 1)))
        start = starts.take(place)
        flat[np.add(start, taken)] = -np.inf
        following = np.array([scores[each].argmax() for each in row.tolist()], dtype=np.int64)
        left = flat.take(np.add(start, following))
        token.put(place, following)
        score.put(place, left)
        worth.put(place, np.add(left, totals.take(place)))
    return found


def _all_have(tokens: Ids, count: int, end: int) -> bool:
    """Whether in each row [row, token] there are so many that are not the end."""
    others = tokens != end
    return bool(others.all()) or int(np.add.reduce(others, axis=1).min()) >= count


def divide(candidates: Candidates, *, beams: int, end: int) -> Survivors:
    """Tell the candidates that end from those that go on."""
    exists = candidates.total > -np.inf
    ends = candidates.token == end
    goes_on = exists & ~ends
    order = np.argsort(~goes_on, axis=1, kind="stable")[:, :beams]
    ended = exists & ends
    ended[:, beams:] = False
    return Survivors(ended, order, goes_on[np.arange(len(order))[:, None], order])

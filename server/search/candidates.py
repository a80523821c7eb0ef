"""Finds the best tokens of rows and the best continuations of beams by array operations, for `array_path`.

Pure functions: each row and each beam by itself, whatever stands beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Ids, Weights
from regard.server.search.rule import FLOOR

Totals = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class Candidates(NamedTuple):
    """Continuations of beams, best first; [beam, candidate]. Those that do not exist have a total of -inf.

    Attributes:
        row: that it was found in.
        parent: number of the hypothesis that it continues.
        token: that it continues it by.
        total: sum of all log-probabilities.
        log_prob: of the token.
    """

    row: Rows
    parent: Ids
    token: Ids
    total: Totals
    log_prob: Weights

    def pick(self, where: Any) -> Candidates:
        """Return those that an index names."""
        return Candidates(
            self.row[where], self.parent[where], self.token[where], self.total[where], self.log_prob[where]
        )


class Survivors(NamedTuple):
    """What becomes of candidates.

    Attributes:
        ended: [beam, candidate], those that end and rank among the best beam_size.
        order: [beam, survivor], at most beam_size candidates that stay alive, best first.
        alive: [beam, survivor], False where there were fewer.
    """

    ended: Flags
    order: Rows
    alive: Flags


def best_tokens(log_probs: Weights, fallback_id: int) -> tuple[Ids, Weights, Rows]:
    """Return each row's best token [row], its log-probability [row], and the rows that hold NaN or +inf.

    Args:
        log_probs: [row, column], -inf where a token is not allowed.
        fallback_id: taken where nothing is allowed.
    """
    token = log_probs.argmax(axis=1)
    starts: Ids = np.arange(0, log_probs.size, log_probs.shape[1], dtype=np.int64)
    best = log_probs.reshape(-1).take(np.add(token, starts))
    # Almost always these two comparisons are enough; with NaN both are False.
    if np.minimum.reduce(best) >= FLOOR and np.maximum.reduce(best) < np.inf:
        return token, best, _NO_ROWS
    # argmax finds the first NaN of a row before any number.
    broken = np.flatnonzero(~(best < np.inf))
    token[best == -np.inf] = fallback_id
    return token, np.maximum(best, FLOOR), broken


def given_log_probs(log_probs: Weights, rows: Rows, tokens: Ids) -> Weights:
    """Return the log-probabilities [row] of given tokens [row] in the given rows; FLOOR for one without a column."""
    width = log_probs.shape[1]
    found = log_probs[rows, np.minimum(tokens, width - 1)]
    return np.maximum(np.where(tokens < width, found, FLOOR), FLOOR)


def continuations(log_probs: Weights, best: Ids, rows: Rows, totals: Totals, *, eos_id: int) -> Candidates:
    """Return the best continuations of each beam, as many as it takes for every beam to stay as wide as it is.

    A beam needs as many continuations without </s> as it has hypotheses, and finds them among twice as many of any
    kind. They are taken one after the other: each time the best of a row becomes -inf, and only that row is searched
    again.

    Args:
        log_probs: [row, column] without NaN or +inf; what was taken is overwritten by -inf.
        best: each row's best token.
        rows: which of them continue each hypothesis [beam, hypothesis], those of living ones all different.
        totals: summed log-probabilities of the hypotheses [beam, hypothesis]; -inf for a dead one, which the first of
            a beam never is.
    """
    members, beams = len(rows), rows.shape[1]
    most = 2 * beams
    # Everything is taken by places in flat arrays, which costs a fraction of what several index arrays do.
    flat = log_probs.reshape(-1)
    starts: Rows = np.multiply(rows, log_probs.shape[1])
    token = best.take(rows)
    log_prob = flat.take(np.add(starts, token))
    total: Totals = np.add(log_prob, totals)
    first: Rows = np.arange(0, members * beams, beams, dtype=np.intp)
    found = Candidates(
        np.empty((members, most), dtype=np.intp),
        np.empty((members, most), dtype=np.int64),
        np.empty((members, most), dtype=np.int64),
        np.empty((members, most), dtype=np.float64),
        np.empty((members, most), dtype=np.float32),
    )
    for rank in range(most):
        # Ties: the first parent, and of its equal tokens the first.
        parent = total.argmax(axis=1)
        place: Rows = np.add(parent, first)
        taken = token.take(place)
        row = rows.take(place)
        found.row[:, rank] = row
        found.parent[:, rank] = parent
        found.token[:, rank] = taken
        found.total[:, rank] = total.take(place)
        found.log_prob[:, rank] = log_prob.take(place)
        if rank + 1 >= beams and _all_have(found.token[:, : rank + 1], beams, eos_id):
            return found.pick((slice(None), slice(rank + 1)))
        start = starts.take(place)
        flat[np.add(start, taken)] = -np.inf
        following = np.array([log_probs[each].argmax() for each in row.tolist()], dtype=np.int64)
        left = flat.take(np.add(start, following))
        token.put(place, following)
        log_prob.put(place, left)
        total.put(place, np.add(left, totals.take(place)))
    return found


def _all_have(tokens: Ids, count: int, eos_id: int) -> bool:
    """Tell whether every row [row, token] has so many tokens that do not end it."""
    others = tokens != eos_id
    return bool(others.all()) or int(np.add.reduce(others, axis=1).min()) >= count


def divide(candidates: Candidates, *, beams: int, eos_id: int) -> Survivors:
    """Divide candidates into those that are finished and those that stay alive."""
    exists = candidates.total > -np.inf
    ends = candidates.token == eos_id
    stays = exists & ~ends
    order = np.argsort(~stays, axis=1, kind="stable")[:, :beams]
    ended = exists & ends
    ended[:, beams:] = False
    return Survivors(ended, order, stays[np.arange(len(order))[:, None], order])

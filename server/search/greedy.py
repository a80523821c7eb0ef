"""Lets a few greedy rows go on by their best token, number by number: for one sentence alone that is twice as fast.

Does not know requests, beams or given targets, nor what is to be done about scores that are no numbers: of such steps
it keeps its hands off, and `regard.server.engine.pool` does them with all rows at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.engine.rows import RowBuffers
from regard.server.engine.slots import SlotTable
from regard.server.search.candidates import FLOOR
from regard.server.search.hypothesis_store import History

# Up to here arrays cost more than they save.
FEW = 4

_FLOOR = float(FLOOR)


class Choice(NamedTuple):
    """What a row goes on with, or ends by.

    Attributes:
        slot: of the row.
        length: tokens before this one.
        token: the best one.
        log_probability: of it.
        ended: it is the end of the sentence.
        last: it ends, or there may be no more tokens.
    """

    slot: int
    length: int
    token: int
    log_probability: float
    ended: bool
    last: bool


def advance_few(
    rows: RowBuffers, table: SlotTable, history: History, *, never: slice | NDArray[np.intp], end: int
) -> list[Choice] | None:
    """Choose every row's best token after a step and write it down.

    Args:
        never: tokens that are never generated.
        end: the end of sentence, forbidden before a row's least length.

    Returns:
        one choice for each row; None if something is out of the ordinary, and then nothing was written down, though
        what is forbidden has lost its score.
    """
    choices: list[Choice] = []
    for row in range(rows.count):
        slot, scores = int(rows.slots[row]), rows.scores[row]
        length = int(table.length[slot])
        scores[never] = -np.inf
        if length < table.minimum[slot]:
            scores[end] = -np.inf
        token = int(scores.argmax())
        best = float(scores[token])
        # NaN is not at least anything.
        if not _FLOOR <= best < math.inf:
            return None
        last = token == end or length + 1 >= int(table.limit[slot])
        choices.append(Choice(slot, length, token, best, token == end, last))
    if rows.attention is not None:
        attention = rows.attention[: rows.count]
        if not math.isfinite(np.add.reduce(attention, axis=None)):
            return None
        for row, choice in enumerate(choices):
            history.look(choice.slot, choice.length, attention[row])
    for row, choice in enumerate(choices):
        history.tokens[choice.slot, choice.length] = choice.token
        history.log_probabilities[choice.slot, choice.length] = choice.log_probability
        table.length[choice.slot] = choice.length + 1
        rows.token[row] = choice.token
    return choices

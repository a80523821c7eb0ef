"""Defines what a search gets from each step of the model, and what it answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Ids, Weights
from regard.server.search.searches import Search

Index = NDArray[np.intp]


class StepOutput(NamedTuple):
    """What the model said of each row.

    Attributes:
        log_probs: log-probabilities of the next token [row, column]; a search overwrites them.
        attention: that predicted it [row, layer, head, width]; None for models without attention.
        slots: slot of each row [row].
        row_of_slot: row of each slot [slot], -1 where it has none.
        next_tokens: [row]; a search writes here what greedy and forced rows are fed next.
    """

    log_probs: Weights
    attention: Weights | None
    slots: Index
    row_of_slot: Index
    next_tokens: Ids


class Reordering(NamedTuple):
    """How the hypotheses of beams go on: each slot takes over the state of a row and is fed a token.

    Attributes:
        slots: that go on [hypothesis], those of a beam one after the other.
        parents: row that each of them follows [hypothesis].
        tokens: that each of them is fed next [hypothesis].
        mates: all slots of these beams in the same order of beams, also those whose hypothesis died.
    """

    slots: Index
    parents: Index
    tokens: Ids
    mates: Index


class FewReordered(NamedTuple):
    """A `Reordering` of a few hypotheses, as numbers: every slot of these beams goes on."""

    slots: list[int]
    parents: list[int]
    tokens: list[int]


class Advance(NamedTuple):
    """What became of the searches in one step.

    Attributes:
        finished: searches that are over, with their hypotheses.
        broken: searches with NaN or +inf in a row, which are over, too.
        reordered: how the beams that are left go on; None if there are none.
    """

    finished: list[Search]
    broken: list[Search]
    reordered: Reordering | FewReordered | None

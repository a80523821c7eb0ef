"""Keeps the rows of one model and source width in the first places of fixed buffers, and steps them.

Does not know what the numbers mean, how tokens are chosen, or which request a row belongs to: a row carries the number
of the slot that it stands for, and a slot does not move when rows do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from regard.server.bundle.ports import STATE_OUTPUT_PREFIX
from regard.server.engine.decoder import Decoder, Tensors
from regard.server.engine.state_buffers import StateBuffers, buffer_shape
from regard.server.request import Ids, Weights

Index = NDArray[np.intp]

# So many rows are moved one by one.
_FEW = 2


class RowBuffers:
    """Rows [count] of at most `capacity`, compacted; what lies behind the first `count` has no meaning.

    Attributes:
        count: rows there are.
        slots: slot of each row [capacity].
        row_of_slot: row of each slot [capacity], -1 where it has none.
        token: input of the next step [capacity], as a column of the scores.
        scores: log-probabilities of the last step [capacity, vocabulary], or of one of the model's choices of tokens.
        attention: of the last step [capacity, layer, head, width]; None for models without it.
        state: what rows carry from step to step.
    """

    def __init__(self, decoder: Decoder, *, capacity: int, width: int, target: int, choice: int | None = None) -> None:
        facts = decoder.facts.choosing(choice)
        self._ids = facts.ids
        self._scores_name = "scores" if choice is None else facts.choices[choice].scores
        self.count = 0
        self.slots = np.full(capacity, -1, dtype=np.intp)
        self.row_of_slot = np.full(capacity, -1, dtype=np.intp)
        self.token: Ids = np.zeros(capacity, dtype=np.int64)
        # What a step reads: ids, which tokens are if there is no choice.
        self._fed = self.token if self._ids is None else np.zeros(capacity, dtype=np.int64)
        self.scores: Weights = np.empty((capacity, facts.scores_size), dtype=np.float32)
        self.attention: Weights | None = None
        if facts.layers:
            self.attention = np.empty((capacity, facts.layers, facts.heads, width), dtype=np.float32)
        self._decoder = decoder
        self._memory = {
            port.name: np.empty(buffer_shape(port, capacity, width), dtype=port.dtype) for port in facts.memory
        }
        self.state = StateBuffers(facts.state, rows=capacity, width=width, target=target, in_place=facts.state_in_place)
        self._bound: dict[tuple[int, bool], Callable[[], None]] = {}
        # Slot that goes on in each row, and whether a slot does so in the row of its parent: scratch of `pick`.
        self._heir = np.full(capacity, -1, dtype=np.intp)
        self._stays = np.zeros(capacity, dtype=np.bool_)

    def append(self, slots: Index, encoded: Tensors, begin: int, *, target: int = 0) -> None:
        """Add a row for each slot [row], with the memory and state that encoding gave [row, ...].

        Args:
            target: steps that the longest of them may take.
        """
        if self.state.reserve(target):
            self._bound.clear()
        start, end = self.count, self.count + len(slots)
        self._place(slots, start, end)
        self.token[start:end] = begin
        for name, buffer in self._memory.items():
            buffer[start:end] = encoded[name]
        self.state.begin(start, end, encoded)

    def step(self) -> None:
        """Run the model over all rows; every row then has its own new state. There must be a row."""
        if self.count < 1:
            raise ValueError("a step needs a row: an empty batch would abort the process")
        key = (self.count, self.state.turned)
        run = self._bound.get(key)
        if run is None:
            run = self._bound[key] = self._bind()
        if self._ids is not None:
            self._ids.take(self.token[: self.count], out=self._fed[: self.count], mode="clip")
        run()
        self.state.stepped(self.count)

    def _bind(self) -> Callable[[], None]:
        outputs = {STATE_OUTPUT_PREFIX + name: buffer for name, buffer in self.state.written.items()}
        outputs[self._scores_name] = self.scores
        if self.attention is not None:
            outputs["attention"] = self.attention
        inputs = {"token": self._fed, **self.state.read, **self._memory}
        return self._decoder.bind_step(inputs, outputs, self.count)

    def pick(self, slots: Index, parents: Index, mates: Index) -> None:
        """Let every one of some slots go on with the state that a row has after the step.

        Of the slots that follow one row, the first takes over the row itself, so that nothing moves; the others
        overwrite rows that nobody follows.

        Args:
            slots: that go on, those of a beam one after the other; those without a row get one.
            parents: row that each of them follows.
            mates: all slots of these beams, in the same order of beams. All rows of a beam read the same source.
        """
        row_of_slot, heir, stays = self.row_of_slot, self._heir, self._stays
        has = row_of_slot.take(slots)
        if has.min(initial=0) < 0:
            new = has < 0
            start, end = self.count, self.count + int(np.count_nonzero(new))
            self._place(slots[new], start, end)
            self.state.forget(start, end)
            for buffer in self._memory.values():
                buffer[start:end] = buffer[parents[new]]
            has = row_of_slot.take(slots)
        # The last one written is the first of a row's followers.
        heir[parents[::-1]] = slots[::-1]
        inherits = heir.take(parents) == slots
        whole = bool(inherits.all())
        if whole and (has == parents).all():
            heir[parents] = -1
            return
        settled, row = slots[inherits], parents[inherits]
        stays[settled] = True
        rows = row_of_slot.take(mates)
        if rows.min() < 0:
            mates, rows = mates[rows >= 0], rows[rows >= 0]
        # Beam by beam there are as many rows without an heir as slots that have not inherited a row.
        left = mates[~stays.take(mates)]
        row_of_slot[left] = rows[heir.take(rows) < 0]
        row_of_slot[settled] = row
        self.slots[row_of_slot.take(mates)] = mates
        stays[settled] = False
        heir[parents] = -1
        if not whole:
            follows = ~inherits
            self.state.copy(parents[follows], row_of_slot.take(slots[follows]))

    def remove(self, slots: Index) -> None:
        """Drop the rows that these slots have; the last rows move into their places."""
        gone = {row for row in self.row_of_slot[slots].tolist() if row >= 0}
        self.row_of_slot[slots] = -1
        left = self.count - len(gone)
        movers = [row for row in range(left, self.count) if row not in gone]
        holes = sorted(row for row in gone if row < left)
        if len(holes) > _FEW:
            sources, targets = np.array(movers, dtype=np.intp), np.array(holes, dtype=np.intp)
            self._move(sources, targets)
            self.state.copy(sources, targets)
        else:
            # Copying one row needs no index arrays.
            for hole, mover in zip(holes, movers, strict=True):
                self._move(mover, hole)
                self.state.copy_one(mover, hole)
        self.count = left

    def _move(self, sources: Index | int, targets: Index | int) -> None:
        """Let the slots of some rows go on in other rows, none of which is among the first; all but their state."""
        moved = self.slots[sources]
        self.slots[targets] = moved
        self.row_of_slot[moved] = targets
        self.token[targets] = self.token[sources]
        for buffer in self._memory.values():
            buffer[targets] = buffer[sources]

    def clear(self, slots: Index) -> None:
        """Forget what the rows of slots wrote, if it may hold what is no number; to be removed next."""
        rows = self.row_of_slot[slots]
        self.state.clear(rows[rows >= 0])

    def _place(self, slots: Index, start: int, end: int) -> None:
        self.slots[start:end] = slots
        self.row_of_slot[slots] = np.arange(start, end)
        self.count = end

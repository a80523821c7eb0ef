"""Keeps the rows of a batch packed in fixed buffers, runs the model over them, and reorders the rows of beams.

A row knows only the slot that it stands for: slots keep their place while rows move (`RowBuffers.reorder` for beams,
`RowBuffers.remove` when searches leave). It does not know what the numbers mean or how tokens are chosen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from regard.contract.ports import STATE_OUTPUT_PREFIX
from regard.server.engine.decoder import Decoder, Tensors
from regard.server.engine.state_buffers import StateBuffers, buffer_shape
from regard.server.request import Ids, Weights
from regard.server.search.step import FewReordered, Reordering

Index = NDArray[np.intp]

# So many rows are moved one by one.
_FEW = 2


class RowBuffers:
    """Rows [count] of at most `capacity`, compacted; what lies behind the first `count` has no meaning.

    Attributes:
        count: rows there are.
        slots: slot of each row [capacity].
        row_of_slot: row of each slot [capacity], -1 where it has none.
        token: input of the next step [capacity], as a column of `log_probs`.
        log_probs: of the last step [capacity, column], over all output tokens or one of the model's shortlists.
        attention: of the last step [capacity, layer, head, width]; None for models without it.
        state: what rows carry from step to step.
    """

    def __init__(
        self, decoder: Decoder, *, capacity: int, width: int, target: int, shortlist: int | None = None
    ) -> None:
        facts = decoder.facts
        vocabulary = facts.output_vocabulary(shortlist)
        self._token_ids = vocabulary.token_ids
        self._scores_port = facts.scores_port(shortlist)
        self.count = 0
        self.slots = np.full(capacity, -1, dtype=np.intp)
        self.row_of_slot = np.full(capacity, -1, dtype=np.intp)
        self.token: Ids = np.zeros(capacity, dtype=np.int64)
        # What a step reads: ids, which columns are if there is no shortlist.
        self._fed = self.token if self._token_ids is None else np.zeros(capacity, dtype=np.int64)
        self.log_probs: Weights = np.empty((capacity, vocabulary.size), dtype=np.float32)
        self.attention: Weights | None = None
        if facts.layers:
            self.attention = np.empty((capacity, facts.layers, facts.heads, width), dtype=np.float32)
        self._decoder = decoder
        self._memory = {
            port.name: np.empty(buffer_shape(port, capacity, width), dtype=port.dtype) for port in facts.memory
        }
        self.state = StateBuffers(facts.state, rows=capacity, width=width, target=target, in_place=facts.state_in_place)
        self._bound: dict[tuple[int, bool], Callable[[], None]] = {}
        # Slot that goes on in each row, and whether a slot does so in the row of its parent: scratch of `reorder`.
        self._heir = np.full(capacity, -1, dtype=np.intp)
        self._stays = np.zeros(capacity, dtype=np.bool_)

    def append(self, slots: Index, encoded: Tensors, bos_id: int, *, target: int = 0) -> None:
        """Add a row for each slot [row], with the memory and state that encoding gave [row, ...], to be fed bos_id.

        Args:
            target: steps that the longest of them may take.
        """
        if self.state.reserve(target):
            self._bound.clear()
        start, end = self.count, self.count + len(slots)
        self._place(slots, start, end)
        self.token[start:end] = bos_id
        for name, buffer in self._memory.items():
            buffer[start:end] = encoded[name]
        self.state.begin(start, end, encoded)

    def step(self) -> None:
        """Run the model over all rows; every row then has its own new state. There must be a row."""
        if self.count < 1:
            raise ValueError("a step needs a row: an empty batch would abort the process")
        key = (self.count, self.state.flipped)
        run = self._bound.get(key)
        if run is None:
            run = self._bound[key] = self._bind()
        if self._token_ids is not None:
            self._token_ids.take(self.token[: self.count], out=self._fed[: self.count], mode="clip")
        run()
        self.state.stepped(self.count)

    def _bind(self) -> Callable[[], None]:
        outputs = {STATE_OUTPUT_PREFIX + name: buffer for name, buffer in self.state.written.items()}
        outputs[self._scores_port] = self.log_probs
        if self.attention is not None:
            outputs["attention"] = self.attention
        inputs = {"token": self._fed, **self.state.read, **self._memory}
        return self._decoder.bind_step(inputs, outputs, self.count)

    def reorder(self, how: Reordering | FewReordered) -> None:
        """Reorder the rows of beams after a step: each slot takes over the state of the row of its parent.

        Of the slots that follow one row, the first takes over the row itself, so that nothing is copied for it; the
        others overwrite rows of the same beam, which read the same source, that nobody follows. Slots without a row
        get one.
        """
        if not isinstance(how, FewReordered):
            self._reorder_by_arrays(how.slots, how.parents, how.mates)
            self.token[self.row_of_slot.take(how.slots)] = how.tokens
        elif min([self.row_of_slot.item(slot) for slot in how.slots]) < 0:
            slots = np.array(how.slots, dtype=np.intp)
            self._reorder_by_arrays(slots, np.array(how.parents, dtype=np.intp), slots)
            self.token[self.row_of_slot.take(slots)] = how.tokens
        else:
            self._reorder_one_by_one(how)

    def _reorder_one_by_one(self, how: FewReordered) -> None:
        followed = set(how.parents)
        free = [row for row in [self.row_of_slot.item(slot) for slot in how.slots] if row not in followed]
        copies: list[tuple[int, int]] = []
        for slot, parent, token in zip(how.slots, how.parents, how.tokens, strict=True):
            row = parent
            if parent in followed:
                followed.remove(parent)
            else:
                # Beam by beam as many rows are free as slots did not take over a row.
                row = free[len(copies)]
                copies.append((parent, row))
            self.row_of_slot[slot] = row
            self.slots[row] = slot
            self.token[row] = token
        if copies:
            self.state.copy_pairs(copies)

    def _reorder_by_arrays(self, slots: Index, parents: Index, mates: Index) -> None:
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
        """Forget what the rows of slots wrote, which may hold NaN or infinity; they are to be removed next."""
        rows = self.row_of_slot[slots]
        self.state.clear(rows[rows >= 0])

    def _place(self, slots: Index, start: int, end: int) -> None:
        self.slots[start:end] = slots
        self.row_of_slot[slots] = np.arange(start, end)
        self.count = end

"""Keeps the rows of one model and source width in the first places of fixed buffers, and steps them.

Does not know what the numbers mean, how tokens are chosen, or which request a row belongs to: a row carries the number
of the slot that it stands for, and a slot does not move when rows do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.decoder import Decoder, Tensors
from server.ports import STATE_OUTPUT_PREFIX, PortSpec
from server.request import Ids, Weights

Index = NDArray[np.intp]


class RowBuffers:
    """Rows [count] of at most `capacity`, compacted; what lies behind the first `count` has no meaning.

    State is held twice: a step reads one copy and writes the other. Afterwards either the copies change roles
    (`turn`, nothing moves) or rows are picked back from what was written (`pick`, for beams).

    Attributes:
        count: rows there are.
        slots: slot of each row [capacity].
        row_of_slot: row of each slot [capacity], -1 where it has none.
        token: input of the next step [capacity].
        scores: log-probabilities of the last step [capacity, vocabulary].
        attention: of the last step [capacity, layer, head, width]; None for models without it.
    """

    def __init__(self, decoder: Decoder, *, capacity: int, width: int) -> None:
        facts = decoder.facts
        self.count = 0
        self.slots = np.full(capacity, -1, dtype=np.intp)
        self.row_of_slot = np.full(capacity, -1, dtype=np.intp)
        self.token: Ids = np.empty(capacity, dtype=np.int64)
        self.scores: Weights = np.empty((capacity, facts.scores_size), dtype=np.float32)
        self.attention: Weights | None = None
        if facts.layers:
            self.attention = np.empty((capacity, facts.layers, facts.heads, width), dtype=np.float32)

        def buffers(ports: tuple[PortSpec, ...]) -> dict[str, NDArray[Any]]:
            return {port.name: np.empty(buffer_shape(port, capacity, width), dtype=port.dtype) for port in ports}

        self._decoder = decoder
        self._memory = buffers(facts.memory)
        self._state = buffers(facts.state)
        self._next = buffers(facts.state)
        self._turned = False
        self._bound: dict[tuple[int, bool], Callable[[], None]] = {}

    def append(self, slots: Index, encoded: Tensors, begin: int) -> None:
        """Add a row for each slot [row], with the memory and state that encoding gave [row, ...]."""
        start, end = self.count, self.count + len(slots)
        self._place(slots, start, end)
        self.token[start:end] = begin
        for part in (self._memory, self._state):
            for name, buffer in part.items():
                buffer[start:end] = encoded[name]

    def step(self) -> None:
        """Run the model over all rows; state is then in the other copy until `turn` or `pick`. There must be a row."""
        if self.count < 1:
            raise ValueError("a step needs a row: an empty batch would abort the process")
        key = (self.count, self._turned)
        run = self._bound.get(key)
        if run is None:
            run = self._bound[key] = self._bind()
        run()

    def _bind(self) -> Callable[[], None]:
        outputs: dict[str, NDArray[Any]] = {"scores": self.scores}
        outputs.update((STATE_OUTPUT_PREFIX + name, buffer) for name, buffer in self._next.items())
        if self.attention is not None:
            outputs["attention"] = self.attention
        inputs = {"token": self.token, **self._state, **self._memory}
        return self._decoder.bind_step(inputs, outputs, self.count)

    def turn(self) -> None:
        """Let every row go on with its own new state."""
        self._state, self._next = self._next, self._state
        self._turned = not self._turned

    def pick(self, parents: Index, added: Index) -> None:
        """Let every row [count + added] go on with the new state of row `parents`; `added` are the slots of new rows.

        A row and its parent read the same source, so that only an added row needs memory copied.
        """
        start, end = self.count, self.count + len(added)
        if start != end:
            self._place(added, start, end)
            for buffer in self._memory.values():
                buffer[start:end] = buffer[parents[start:]]
        for name, buffer in self._state.items():
            # mode="clip" lets numpy write into `out` directly; the indices are in range.
            np.take(self._next[name], parents, axis=0, out=buffer[:end], mode="clip")

    def remove(self, slots: Index) -> None:
        """Drop the rows that these slots have; the last rows move into their places."""
        gone = {row for row in self.row_of_slot[slots].tolist() if row >= 0}
        self.row_of_slot[slots] = -1
        left = self.count - len(gone)
        movers = [row for row in range(left, self.count) if row not in gone]
        # Row by row: few rows move at once, and copying a whole one needs no index arrays.
        for hole, mover in zip(sorted(row for row in gone if row < left), movers, strict=True):
            slot = self.slots[mover]
            self.slots[hole] = slot
            self.row_of_slot[slot] = hole
            self.token[hole] = self.token[mover]
            for part in (self._memory, self._state):
                for buffer in part.values():
                    buffer[hole] = buffer[mover]
        self.count = left

    def _place(self, slots: Index, start: int, end: int) -> None:
        self.slots[start:end] = slots
        self.row_of_slot[slots] = np.arange(start, end)
        self.count = end


def buffer_shape(port: PortSpec, capacity: int, width: int) -> tuple[int, ...]:
    """Return the shape of a buffer for a memory or state tensor whose named axes are `batch` and `source`.

    Raises:
        ValueError: another axis varies.
    """
    sizes = {"batch": capacity, "source": width}
    try:
        return tuple(axis if isinstance(axis, int) else sizes[axis] for axis in port.axes)
    except KeyError as error:
        raise ValueError(f"{port.name} has an axis {error} that is neither batch nor source") from error

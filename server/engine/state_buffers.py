"""Holds the decoder state of rows between steps, KV caches included, and copies it when rows move.

Rows are numbers here; whose they are and which tokens they generate is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.contract.ports import TARGET, Port

Index = NDArray[np.intp]
Buffer = NDArray[Any]

# Entries are moved in blocks, so that rows which differ by little are moved in one go.
_BLOCK = 4
_MOVED_BYTES = 128 * 1024
# For rows with more entries it pays to find out what they have in common, which need not be copied.
_FEW_ENTRIES = 32


class StateBuffers:
    """State of at most `rows` rows.

    Most tensors are held twice: a step reads one copy and writes the other, and `stepped` flips their roles. A tensor
    with an axis `target` is a buffer to which a step adds one entry, as a KV cache is, and there is one copy only if
    the model writes in place. Of buffers only the entries so far are ever copied, less those that two rows have in
    common since one followed the other. Buffers of one shape lie one behind the other, so that a row is copied in all
    of them at once.

    Buffers begin as zeros, and hold nothing but that and what steps wrote.

    Attributes:
        flipped: which copy is read: whether the number of steps so far is odd.
        target: entries that buffers have room for.
        groups: buffers, those of one shape together.
        filled: entries that each row has written [rows].
    """

    def __init__(self, ports: Sequence[Port], *, rows: int, width: int, target: int, in_place: bool = False) -> None:
        plain = [port for port in ports if TARGET not in port.axes]
        shapes = {port.name: buffer_shape(port, rows, width) for port in plain}
        self._read = {port.name: np.empty(shapes[port.name], dtype=port.dtype) for port in plain}
        self._written = {port.name: np.empty(shapes[port.name], dtype=port.dtype) for port in plain}
        alike: dict[tuple[Any, ...], list[Port]] = {}
        for port in ports:
            if TARGET in port.axes:
                alike.setdefault((port.axes, port.dtype), []).append(port)
        self.groups = [BufferGroup(members, rows=rows, width=width, in_place=in_place) for members in alike.values()]
        self.filled = np.zeros(rows, dtype=np.intp)
        # Entries that two rows have in common for certain, from the first one on [row, row].
        self._common = np.zeros((rows, rows) if self.groups else (0, 0), dtype=np.intp)
        self.flipped = False
        self.target = 0
        self.reserve(target)

    @property
    def read(self) -> Mapping[str, Buffer]:
        """What the next step reads, by name, [rows, ...]."""
        found = dict(self._read)
        for group in self.groups:
            found.update(zip(group.names, group.read, strict=True))
        return found

    @property
    def written(self) -> Mapping[str, Buffer]:
        """What the next step writes, by name, [rows, ...]."""
        found = dict(self._written)
        for group in self.groups:
            found.update(zip(group.names, group.written, strict=True))
        return found

    def reserve(self, target: int) -> bool:
        """Make room for so many entries; True if buffers were made anew, so that addresses changed."""
        if target <= self.target:
            return False
        self.target = target
        for group in self.groups:
            group.make(target)
        return bool(self.groups)

    def begin(self, start: int, end: int, encoded: Mapping[str, Buffer]) -> None:
        """Start rows [start, end) with what encoding gave [row, ...], or zeros, and with empty buffers."""
        for name, buffer in self._read.items():
            buffer[start:end] = encoded.get(name, 0)
        self.forget(start, end)

    def forget(self, start: int, end: int) -> None:
        """Empty the buffers of rows [start, end)."""
        if self.groups:
            self.filled[start:end] = 0
            self._common[start:end] = 0
            self._common[:, start:end] = 0

    def stepped(self, rows: int) -> None:
        """Note that a step was made with the first `rows` rows, and read what it wrote from now on."""
        self._read, self._written = self._written, self._read
        self.flipped = not self.flipped
        if self.groups:
            self.filled[:rows] += 1
            for group in self.groups:
                group.flip()

    def copy(self, sources: Index, targets: Index) -> None:
        """Overwrite each of the rows `targets` by one of `sources`; no row may be in both."""
        for buffer in self._read.values():
            buffer[targets] = buffer[sources]
        if not self.groups:
            return
        filled = self.filled[sources]
        # All of what both have in common need not be copied, which is nearly all where beams part late.
        blocks = self._common[sources, targets] // _BLOCK
        self._common[sources, sources] = filled
        self._follow(sources, targets)
        first = int(blocks[0])
        if (blocks == first).all():
            self._move(sources, targets, first * _BLOCK, int(filled.max()))
            return
        for block in set(blocks.tolist()):
            chosen = blocks == block
            self._move(sources[chosen], targets[chosen], block * _BLOCK, int(filled[chosen].max()))

    def copy_one(self, source: int, target: int) -> None:
        """Overwrite row `target` by row `source`."""
        for buffer in self._read.values():
            buffer[target] = buffer[source]
        if self.groups:
            self._follow(source, target)
            self._move(source, target, 0, int(self.filled[source]))

    def copy_pairs(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Overwrite a few rows, each (source, target) as `copy_one` does, or all at once where that is cheaper."""
        if self.groups and self.filled.item(pairs[0][0]) > _FEW_ENTRIES:
            sources, targets = np.array(pairs, dtype=np.intp).T
            self.copy(sources, targets)
        else:
            for source, target in pairs:
                self.copy_one(source, target)

    def clear(self, rows: Index) -> None:
        """Zero what rows wrote to buffers: it may be NaN, which a weight of 0 would not make harmless."""
        for group in self.groups:
            group.read[:, rows] = 0
            group.written[:, rows] = 0
        if self.groups:
            self._common[rows] = 0
            self._common[:, rows] = 0

    def _follow(self, sources: Index | int, targets: Index | int) -> None:
        """Note that rows become equal to others."""
        self.filled[targets] = self.filled[sources]
        self._common[targets] = self._common[sources]
        self._common[:, targets] = self._common[:, sources]

    def _move(self, sources: Index | int, targets: Index | int, start: int, end: int) -> None:
        if start == end:  # Rows that took no step yet, or that part nowhere.
            return
        for group in self.groups:
            group.move(sources, targets, start, end)


class BufferGroup:
    """Buffers of one shape: [tensor, row, ..., target, ...]."""

    def __init__(self, ports: Sequence[Port], *, rows: int, width: int, in_place: bool) -> None:
        self.names = [port.name for port in ports]
        self._port = ports[0]
        self._rows = rows
        self._width = width
        self._in_place = in_place
        self._between = (slice(None),) * (self._port.axes.index(TARGET) - 1)
        self.read: Buffer = np.zeros(0)
        self.written: Buffer = self.read

    def make(self, target: int) -> None:
        """Make the buffers, or make them anew with more room."""
        shape = (len(self.names), *buffer_shape(self._port, self._rows, self._width, target))
        old, self.read = self.read, np.zeros(shape, dtype=self._port.dtype)
        self.written = self.read if self._in_place else np.zeros(shape, dtype=self._port.dtype)
        if old.size:
            had = old.shape[len(self._between) + 2]
            self.read[(slice(None), slice(None), *self._between, slice(had))] = old

    def flip(self) -> None:
        """Swap the roles of the copies, if there are two."""
        self.read, self.written = self.written, self.read

    def move(self, sources: Index | int, targets: Index | int, start: int, end: int) -> None:
        """Copy the entries [start, end) of rows to other rows."""
        entries = (*self._between, slice(start, end))
        if isinstance(sources, int) or isinstance(targets, int):
            self.read[(slice(None), targets, *entries)] = self.read[(slice(None), sources, *entries)]
            return
        # What is picked by an index array is copied twice, so few rows at once, which stay in the cache.
        room: int = self.read.shape[len(self._between) + 2]
        few = max(_MOVED_BYTES * self._rows * room // (self.read.nbytes * (end - start)), 1)
        for first in range(0, len(sources), few):
            some = slice(first, first + few)
            self.read[(slice(None), targets[some], *entries)] = self.read[(slice(None), sources[some], *entries)]


def buffer_shape(port: Port, rows: int, width: int, target: int | None = None) -> tuple[int, ...]:
    """Return the shape of a buffer for a memory or state tensor whose named axes are `batch`, `source` and `target`.

    Raises:
        ValueError: another axis varies.
    """
    sizes = {"batch": rows, "source": width} | ({} if target is None else {TARGET: target})
    try:
        return tuple(axis if isinstance(axis, int) else sizes[axis] for axis in port.axes)
    except KeyError as error:
        raise ValueError(f"{port.name} has an axis {error} that no buffer can hold") from error

"""Rows that come, go and follow each other keep the memory and state that are theirs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.contract.ports import Port
from regard.server.engine.decoder import DecoderFacts, Tensors
from regard.server.engine.rows import RowBuffers
from regard.server.engine.state_buffers import buffer_shape
from regard.server.request import Ids, Pixels
from regard.server.search.step import FewReordered, Reordering

CAPACITY, WIDTH = 8, 3


def port(name: str, *axes: str | int, dtype: str = "float32") -> Port:
    role = "memory" if name.startswith("memory") else "state"
    return Port(name=name, role=role, dtype=dtype, axes=axes)


class CountingDecoder:
    """Adds one to the state of every row at every step, and writes the sum to the next entry of its buffers."""

    def __init__(self, *, in_place: bool = False) -> None:
        self.in_place = in_place
        self.seen: Tensors = {}
        self.written: Tensors = {}
        self.facts = DecoderFacts(
            memory=(port("memory.name", "batch", "source", 2), port("memory.flag", "batch", dtype="bool")),
            state=(
                port("state.count", "batch", 2),
                port("state.position", "batch", dtype="int64"),
                port("state.keys", "batch", 2, "target"),
                port("state.values", "batch", "target", 3),
                port("state.more", "batch", "target", 3),
            ),
            vocabulary_size=5,
            output_size=5,
            layers=0,
            heads=0,
            alignment_heads=(),
            pad_id=0,
            bos_id=2,
            eos_id=3,
            suppressed_ids=(0, 1, 2),
            max_source_tokens=3,
            max_target_tokens=9,
            state_in_place=in_place,
        )

    def encode(self, source: Ids | Pixels, source_length: Ids, *, encoder_attention: bool = False) -> Tensors:
        raise NotImplementedError

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        def run() -> None:
            self.seen = {name: buffer[:rows].copy() for name, buffer in inputs.items()}
            for row in range(rows):
                position = inputs["state.position"][row]
                outputs["next.state.position"][row] = position + 1
                count = inputs["state.count"][row] + 1
                outputs["next.state.count"][row] = count
                for name, axis in (("keys", 1), ("values", 0), ("more", 0)):
                    old = np.moveaxis(inputs[f"state.{name}"][row], axis, 0)
                    new = np.moveaxis(outputs[f"next.state.{name}"][row], axis, 0)
                    new[:position] = old[:position]
                    new[position] = count[0]
                    new[position + 1 :] = np.nan
            self.written = outputs

        return run

    def lines(self, row: int) -> list[list[float]]:
        """What the buffers of a row hold after a step."""
        count = int(self.written["next.state.position"][row])
        keys = self.written["next.state.keys"][row][0, :count]
        values, more = (self.written[f"next.state.{name}"][row][:count, 0] for name in ("values", "more"))
        return [keys.tolist(), values.tolist(), more.tolist()]


def encoded(names: list[int]) -> Tensors:
    return {
        "memory.name": np.broadcast_to(np.array(names, dtype=np.float32)[:, None, None], (len(names), WIDTH, 2)),
        "memory.flag": np.array([name % 2 == 1 for name in names]),
        "state.count": np.repeat(np.array(names, dtype=np.float32)[:, None] * 100, 2, axis=1),
    }


class Beam:
    """Slots of one source and, for each that is in use, the counts of its hypothesis so far."""

    def __init__(self, name: int, slots: list[int]) -> None:
        self.name = name
        self.slots = slots
        self.counts: dict[int, list[int]] = {slots[0]: []}


def play(data: st.DataObject, decoder: CountingDecoder) -> None:
    """Let beams come, go on as they like, and leave, and hold every row of every step to what its slot should have."""
    rows = RowBuffers(decoder, capacity=CAPACITY, width=WIDTH, target=2)
    beams: list[Beam] = []
    longest = name = 0
    for _ in range(data.draw(st.integers(1, 25))):
        used = {slot for beam in beams for slot in beam.slots}
        free = [slot for slot in range(CAPACITY) if slot not in used]
        action = data.draw(st.sampled_from(["append", "step", "step", "step", "remove"]))
        if action == "append" and free:
            slots = data.draw(st.lists(st.sampled_from(free), min_size=1, max_size=4, unique=True))
            beams.append(Beam(name, slots))
            rows.append(np.array(slots[:1]), encoded([name]), bos_id=2, target=longest + 1)
            name += 1
        elif action == "remove" and beams:
            beam = beams.pop(data.draw(st.integers(0, len(beams) - 1)))
            rows.remove(np.array(beam.slots))
        elif action == "step" and beams:
            longest = max(longest, 1 + max(len(counts) for beam in beams for counts in beam.counts.values()))
            rows.append(np.zeros(0, dtype=np.intp), encoded([]), bos_id=2, target=longest)
            rows.step()
            assert rows.count == sum(len(beam.counts) for beam in beams)
            for beam in beams:
                for slot, counts in beam.counts.items():
                    row = int(rows.row_of_slot[slot])
                    assert rows.slots[row] == slot
                    counts.append(beam.name * 100 + len(counts) + 1)
                    assert decoder.seen["memory.name"][row].tolist() == [[beam.name] * 2] * WIDTH
                    assert decoder.seen["memory.flag"][row] == (beam.name % 2 == 1)
                    assert decoder.lines(row) == [counts] * 3
            _go_on(data, rows, beams)


def _go_on(data: st.DataObject, rows: RowBuffers, beams: list[Beam]) -> None:
    """Draw which hypotheses are continued by which slots: the first so many of a beam, as a search does it."""
    slots: list[int] = []
    parents: list[int] = []
    for beam in beams:
        alive = data.draw(st.integers(0, len(beam.slots)))
        following = dict(beam.counts)
        for slot in beam.slots[:alive]:
            parent = data.draw(st.sampled_from(list(beam.counts)))
            slots.append(slot)
            parents.append(int(rows.row_of_slot[parent]))
            following[slot] = list(beam.counts[parent])
        # What a hypothesis that is dead holds is nobody's business, but it holds something of its own beam.
        for slot in beam.slots[alive:]:
            following.pop(slot, None)
        beam.counts = following
    having = {slot for beam in beams for slot in beam.slots if rows.row_of_slot[slot] >= 0}
    mates = np.array([slot for beam in beams for slot in beam.slots], dtype=np.intp)
    tokens = data.draw(st.lists(st.integers(0, 4), min_size=len(slots), max_size=len(slots)))
    few = FewReordered(slots, parents, tokens)
    how = Reordering(np.array(slots, dtype=np.intp), np.array(parents, dtype=np.intp), np.array(tokens), mates)
    # One by one only whole beams are reordered.
    whole = bool(slots) and all(set(beam.slots) <= set(slots) for beam in beams if set(beam.slots) & set(slots))
    rows.reorder(few if whole and data.draw(st.booleans()) else how)
    assert rows.token[rows.row_of_slot[slots]].tolist() == tokens
    dead = having - {slot for beam in beams for slot in beam.counts}
    if dead:
        rows.remove(np.array(sorted(dead)))
    beams[:] = [beam for beam in beams if beam.counts]


@pytest.mark.parametrize("in_place", [False, True])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_rows_keep_their_own_memory_and_state_through_any_history(in_place: bool, data: st.DataObject) -> None:
    play(data, CountingDecoder(in_place=in_place))


@pytest.mark.parametrize("few", [None, FewReordered([0, 1, 2], [2, 0, 1], [4, 4, 4])])
def test_a_slot_that_alone_follows_a_row_takes_it_over_and_nothing_is_copied(few: FewReordered | None) -> None:
    decoder = CountingDecoder(in_place=True)
    rows = RowBuffers(decoder, capacity=4, width=WIDTH, target=4)
    rows.append(np.array([0, 1, 2]), encoded([7, 7, 7]), bos_id=2)
    rows.step()
    before = decoder.written["next.state.values"].copy()
    slots = np.array([0, 1, 2])
    rows.reorder(few or Reordering(slots, np.array([2, 0, 1]), np.array([4, 4, 4]), slots))
    assert rows.row_of_slot[:3].tolist() == [2, 0, 1]
    np.testing.assert_array_equal(decoder.written["next.state.values"], before)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("gone", [1, 3])
def test_rows_that_took_no_step_yet_move_into_the_places_of_others(in_place: bool, gone: int) -> None:
    rows = RowBuffers(CountingDecoder(in_place=in_place), capacity=8, width=WIDTH, target=4)
    rows.append(np.arange(6), encoded([7] * 6), bos_id=2, target=4)
    rows.remove(np.arange(gone))
    assert rows.count == 6 - gone
    assert sorted(rows.slots[: rows.count].tolist()) == list(range(gone, 6))
    assert all(rows.slots[rows.row_of_slot[slot]] == slot for slot in range(gone, 6))


def test_a_step_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a row"):
        RowBuffers(CountingDecoder(), capacity=2, width=WIDTH, target=2).step()


def test_new_rows_begin_with_the_begin_of_sentence() -> None:
    decoder = CountingDecoder()
    rows = RowBuffers(decoder, capacity=2, width=WIDTH, target=2)
    rows.append(np.array([1]), encoded([0]), bos_id=2)
    rows.step()
    assert decoder.seen["token"].tolist() == [2]


def test_an_axis_that_is_neither_batch_source_nor_target_has_no_buffer() -> None:
    with pytest.raises(ValueError, match="past"):
        buffer_shape(port("state.keys", "batch", "past", 4), 2, 3)

"""Rows that come, go and follow each other keep the memory and state that are theirs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.decoder import DecoderFacts, Tensors
from server.ports import PortSpec
from server.request import Ids
from server.rows import RowBuffers, buffer_shape

CAPACITY, WIDTH = 8, 3


def port(name: str, *axes: str | int, dtype: str = "float32") -> PortSpec:
    role = "memory" if name.startswith("memory") else "state"
    return PortSpec(name=name, role=role, dtype=np.dtype(dtype), axes=axes)


class CountingDecoder:
    """Adds one to the state of every row at every step."""

    facts = DecoderFacts(
        memory=(port("memory.name", "batch", "source", 2), port("memory.flag", "batch", dtype="bool")),
        state=(port("state.count", "batch", 2),),
        vocabulary_size=5,
        scores_size=5,
        layers=0,
        heads=0,
        alignment_heads=(),
        pad_id=0,
        begin_id=2,
        end_id=3,
        never=(0, 1, 2),
        max_source_tokens=3,
        max_target_tokens=9,
    )

    def __init__(self) -> None:
        self.seen: Tensors = {}

    def encode(self, source: Ids, source_length: Ids) -> Tensors:
        raise NotImplementedError

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        def run() -> None:
            self.seen = {name: buffer[:rows].copy() for name, buffer in inputs.items()}
            outputs["next.state.count"][:rows] = inputs["state.count"][:rows] + 1

        return run


def encoded(names: list[int]) -> Tensors:
    return {
        "memory.name": np.broadcast_to(np.array(names, dtype=np.float32)[:, None, None], (len(names), WIDTH, 2)),
        "memory.flag": np.array([name % 2 == 1 for name in names]),
        "state.count": np.repeat(np.array(names, dtype=np.float32)[:, None] * 100, 2, axis=1),
    }


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_rows_keep_their_own_memory_and_state_through_any_history(data: st.DataObject) -> None:
    decoder = CountingDecoder()
    rows = RowBuffers(decoder, capacity=CAPACITY, width=WIDTH)
    # What each slot should hold: its name in memory, its count in state.
    expected: dict[int, tuple[int, int]] = {}
    name = 0
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["append", "turn", "pick", "remove"]))
        free = [slot for slot in range(CAPACITY) if slot not in expected]
        if action == "append" and free:
            slots = data.draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
            names = list(range(name, name + len(slots)))
            name += len(slots)
            rows.append(np.array(slots), encoded(names), begin=2)
            expected.update((slot, (one, one * 100)) for slot, one in zip(slots, names, strict=True))
        elif action == "remove" and expected:
            slots = data.draw(st.lists(st.sampled_from(sorted(expected)), min_size=1, unique=True))
            rows.remove(np.array(slots))
            for slot in slots:
                del expected[slot]
        elif action in ("turn", "pick") and expected:
            rows.step()
            for slot in range(CAPACITY):
                row = int(rows.row_of_slot[slot])
                assert (row >= 0) == (slot in expected)
                if slot in expected:
                    assert rows.slots[row] == slot
                    one, count = expected[slot]
                    assert decoder.seen["memory.name"][row].tolist() == [[one, one]] * WIDTH
                    assert decoder.seen["memory.flag"][row] == (one % 2 == 1)
                    assert decoder.seen["state.count"][row].tolist() == [count, count]
            expected = {slot: (one, count + 1) for slot, (one, count) in expected.items()}
            if action == "turn":
                rows.turn()
                continue
            # Slots of one name are a beam: any may continue any, and new ones may join.
            new = data.draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
            parents = np.arange(rows.count + len(new))
            following = dict(expected)
            for slot in [*expected, *new]:
                mates = [mate for mate in expected if slot in new or expected[mate][0] == expected[slot][0]]
                mate = data.draw(st.sampled_from(mates))
                place = rows.count + new.index(slot) if slot in new else int(rows.row_of_slot[slot])
                parents[place] = rows.row_of_slot[mate]
                following[slot] = expected[mate]
            rows.pick(parents, np.array(new, dtype=np.intp))
            expected = following
        assert rows.count == len(expected)


def test_a_step_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a row"):
        RowBuffers(CountingDecoder(), capacity=2, width=WIDTH).step()


def test_new_rows_begin_with_the_begin_of_sentence() -> None:
    decoder = CountingDecoder()
    rows = RowBuffers(decoder, capacity=2, width=WIDTH)
    rows.append(np.array([1]), encoded([0]), begin=2)
    rows.step()
    assert decoder.seen["token"].tolist() == [2]


def test_an_axis_that_is_neither_batch_nor_source_has_no_buffer() -> None:
    with pytest.raises(ValueError, match="past"):
        buffer_shape(port("state.keys", "batch", "past", 4), 2, 3)

"""The fakes with buffers see what goes wrong when rows move: each mistake made here on purpose is found.

The mistakes are those that a faster way to move rows would be likely to make.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.server import engine_reference as reference
from tests.server.engine_fakes import END, Cache, FakeDecoder, hashed_scores, request

from regard.contract.names import ModelKey
from regard.server.engine.pool import Pool
from regard.server.engine.rows import Index, RowBuffers
from regard.server.engine.segment import PoolKey, Segment
from regard.server.engine.state_buffers import StateBuffers
from regard.server.request import DecodeRequest, Hypothesis
from regard.server.search.searches import slots_needed
from regard.server.search.step import FewReordered, Reordering

WIDTH = 16
SCORE = hashed_scores(seed=5, ending=0.3)
COPY, COPY_ONE, STEPPED = StateBuffers.copy, StateBuffers.copy_one, StateBuffers.stepped


def decode(cache: Cache) -> None:
    """Hold beams and greedy searches that end at different times to the reference; AssertionError if they differ."""
    decoder = FakeDecoder(SCORE, cache=cache)
    pool = Pool(decoder, capacity=64, width=WIDTH)
    key = PoolKey(ModelKey("fake", "1"), WIDTH)
    asked = [
        request([first, 5, 6, END], beam_size=beams, min_length=first % 3, max_length=3 + 3 * (first % 4))
        for first in range(4, 10)
        for beams in (1, 4)
    ]
    source = np.zeros((len(asked), WIDTH), dtype=np.int64)
    source[:, :4] = [one.source for one in asked]
    segments = [
        Segment(pool=key, rows=slots_needed(one), request=one, deliver=lambda outcome: None, submitted=0.0)
        for one in asked
    ]
    pool.admit(segments, decoder.encode(source, np.full(len(asked), 4)), now=0.0, encode_seconds=0.0)
    answers: dict[DecodeRequest, tuple[Hypothesis, ...] | None] = {}
    while pool.rows:
        answers.update((ended.request, ended.hypotheses) for ended in pool.step())
    for one in asked:
        found = answers[one]
        assert found is not None
        expected = reference.search(SCORE, one, limit=decoder.facts.target_limit(one))
        assert [tuple(entry.tokens.tolist()) for entry in found] == [entry.tokens for entry in expected]


def forget_a_buffer(state: StateBuffers, source: int, target: int) -> None:
    """Compact all but the buffers of one shape."""
    group = state.groups.pop()
    COPY_ONE(state, source, target)
    state.groups.append(group)


def forget_what_was_written_last(state: StateBuffers, source: int, target: int) -> None:
    """Compact all entries but the newest."""
    state.filled[source] -= 1
    COPY_ONE(state, source, target)


def leave_the_position(state: StateBuffers, sources: Index, targets: Index) -> None:
    """Reorder without taking the position along."""
    before = state.filled[targets]
    COPY(state, sources, targets)
    state.filled[targets] = before - 1


def stay_at_the_position(state: StateBuffers, rows: int) -> None:
    """Step without counting."""
    filled = state.filled.copy()
    STEPPED(state, rows)
    state.filled[:] = filled


def overwrite_before_copying(rows: RowBuffers, how: Reordering | FewReordered) -> None:
    """Reorder one row after the other, so that a source may be overwritten before it is copied."""
    parent_of = dict(zip(map(int, how.slots), map(int, how.parents), strict=True))
    token_of = dict(zip(map(int, how.slots), map(int, how.tokens), strict=True))
    mates = list(parent_of) if isinstance(how, FewReordered) else how.mates.tolist()
    having = [slot for slot in mates if rows.row_of_slot[slot] >= 0 or slot in parent_of]
    own = [int(row) if (row := rows.row_of_slot[slot]) >= 0 else parent_of[slot] for slot in having]
    tokens = [token_of.get(slot, END) for slot in having]
    # Those that are new get a row by the right way, and all others stay where they are.
    REORDER(rows, Reordering(np.array(having), np.array(own), np.array(tokens), np.array(mates)))
    for slot, row in zip(having, own, strict=True):
        if slot in parent_of and parent_of[slot] != row:
            rows.state.copy_one(parent_of[slot], row)


REORDER = RowBuffers.reorder


@pytest.mark.parametrize("cache", ["swapped", "in place"])
@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        (StateBuffers, "copy_one", forget_a_buffer),
        (StateBuffers, "copy_one", forget_what_was_written_last),
        (StateBuffers, "copy", leave_the_position),
        (StateBuffers, "stepped", stay_at_the_position),
        (RowBuffers, "reorder", overwrite_before_copying),
    ],
)
def test_a_mistake_in_moving_rows_is_seen(
    monkeypatch: pytest.MonkeyPatch, cache: Cache, owner: type, name: str, mistake: Callable[..., None]
) -> None:
    decode(cache)
    monkeypatch.setattr(owner, name, mistake)
    with pytest.raises((AssertionError, ArithmeticError)):
        decode(cache)

"""Who goes first, who waits, and who is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.engine_fakes import END, request

from regard.contract.names import ModelKey
from regard.server.engine.scheduler import Room, WaitingQueue
from regard.server.engine.segment import PoolKey, Segment
from regard.server.errors import QueueFull

MODEL = ModelKey("fake", "1")


def segment(
    *, width: int = 16, rows: int = 1, priority: int = 0, deadline: float = math.inf, now: float = 0.0
) -> Segment:
    asked = request([4, END], beam_size=rows, priority=priority, deadline=deadline)
    return Segment(pool=PoolKey(MODEL, width), rows=rows, request=asked, deliver=lambda outcome: None, submitted=now)


def room(
    *,
    rows: int = 64,
    pools: dict[PoolKey, int] | None = None,
    new: int = 64,
    wanted: int = 1000,
    cells: int = 10_000,
    idle: bool = False,
) -> Room:
    return Room(
        rows=rows,
        pools={} if pools is None else pools,
        pool_rows=lambda width: new,
        wanted=wanted,
        cells=cells,
        idle=idle,
    )


def queue(*segments: Segment, capacity: int = 1000) -> WaitingQueue:
    made = WaitingQueue(capacity=capacity)
    made.add(segments)
    return made


@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([16, 32, 64])), max_size=30))
def test_higher_priorities_go_first_and_equal_ones_in_order_of_arrival(entries: list[tuple[int, int]]) -> None:
    segments = [segment(priority=priority, width=width) for priority, width in entries]
    expected = sorted(segments, key=lambda entry: -entry.request.context.priority)
    assert queue(*segments).take(room(), 0.0) == expected


def test_a_call_is_taken_whole_or_not_at_all() -> None:
    waiting = queue(segment(), segment(), capacity=4)
    with pytest.raises(QueueFull, match="limit of 4"):
        waiting.add([segment(), segment(), segment()])
    assert waiting.count == 2
    waiting.add([segment(), segment()])
    assert waiting.count == 4


def test_the_advice_to_try_again_follows_the_recent_wait_within_bounds() -> None:
    waiting = queue(segment(now=0.0), capacity=1)
    waiting.take(room(), 3.0)
    waiting.add([segment()])
    with pytest.raises(QueueFull) as caught:
        waiting.add([segment()])
    assert caught.value.retry_after == 3.0
    with pytest.raises(QueueFull) as caught:
        queue(segment(), capacity=1).add([segment()])
    assert 0.0 < caught.value.retry_after <= 10.0


def test_a_full_pool_lets_other_pools_pass_but_none_of_its_own() -> None:
    wide_beam, short, wide = segment(width=64, rows=4), segment(width=16), segment(width=64)
    waiting = queue(wide_beam, wide, short)
    assert waiting.take(room(pools={wide.pool: 2}), 0.0) == [short]
    assert waiting.take(room(), 0.0) == [wide_beam, wide]


def test_a_beam_too_wide_for_the_worker_lets_nobody_pass() -> None:
    beam, other = segment(rows=8), segment(width=32)
    waiting = queue(beam, other)
    assert waiting.take(room(rows=7), 0.0) == []
    assert waiting.take(room(rows=8), 0.0) == [beam]


def test_rows_are_not_given_away_twice() -> None:
    segments = [segment(rows=3) for _ in range(4)]
    waiting = queue(*segments)
    assert waiting.take(room(rows=10), 0.0) == segments[:3]
    assert (waiting.count, waiting.rows) == (1, 3)


def test_a_worker_takes_no_more_than_its_share() -> None:
    segments = [segment() for _ in range(10)]
    waiting = queue(*segments)
    assert waiting.take(room(wanted=4), 0.0) == segments[:4]
    assert waiting.take(room(wanted=0), 0.0) == []


def test_a_worker_encodes_a_bounded_number_of_cells_but_at_least_one_segment() -> None:
    segments = [segment(width=64) for _ in range(5)]
    waiting = queue(*segments)
    assert waiting.take(room(cells=130), 0.0) == segments[:2]
    assert waiting.take(room(cells=1), 0.0) == segments[2:3]


def test_a_worker_without_rows_encodes_four_times_as_many_texts() -> None:
    segments = [segment(width=16) for _ in range(10)]
    waiting = queue(*segments)
    assert waiting.take(room(cells=32, idle=True), 0.0) == segments[:8]


def test_expired_segments_are_taken_out_before_they_run() -> None:
    late, later, never = segment(deadline=5.0), segment(deadline=6.0), segment()
    waiting = queue(never, later, late)
    assert waiting.expire(4.9) == []
    assert waiting.expire(5.0) == [late]
    assert waiting.take(room(), 5.0) == [never, later]
    assert waiting.expire(100.0) == []


def test_withdrawn_segments_leave_and_only_once() -> None:
    first, second = segment(), segment()
    waiting = queue(first, second)
    assert waiting.withdraw([first]) == [first]
    assert waiting.withdraw([first]) == []
    assert waiting.take(room(), 0.0) == [second]
    assert (waiting.count, waiting.rows) == (0, 0)


def test_segments_that_left_do_not_pile_up() -> None:
    waiting = queue(segment())
    for _ in range(5000):
        gone = segment(deadline=1e9)
        waiting.add([gone])
        waiting.withdraw([gone])
    assert waiting.entries < 1000

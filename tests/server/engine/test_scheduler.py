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
    made.add(segments, 0.0)
    return made


@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([16, 32, 64])), max_size=30))
def test_higher_priorities_go_first_and_equal_ones_in_order_of_arrival(entries: list[tuple[int, int]]) -> None:
    segments = [segment(priority=priority, width=width) for priority, width in entries]
    expected = sorted(segments, key=lambda entry: -entry.request.context.priority)
    assert queue(*segments).take(room(), 0.0) == expected


def test_a_call_is_taken_whole_or_not_at_all() -> None:
    waiting = queue(segment(), segment(), capacity=4)
    with pytest.raises(QueueFull, match="limit of 4"):
        waiting.add([segment(), segment(), segment()], 0.0)
    assert waiting.count == 2
    waiting.add([segment(), segment()], 0.0)
    assert waiting.count == 4


def test_the_advice_to_try_again_follows_the_recent_wait_within_bounds() -> None:
    waiting = queue(segment(now=0.0), capacity=1)
    waiting.take(room(), 3.0)
    waiting.add([segment()], 0.0)
    with pytest.raises(QueueFull) as caught:
        waiting.add([segment()], 0.0)
    assert caught.value.retry_after == 3.0
    with pytest.raises(QueueFull) as caught:
        queue(segment(), capacity=1).add([segment()], 0.0)
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
        waiting.add([gone], 0.0)
        waiting.withdraw([gone])
    assert waiting.entries < 1000


def test_one_sentence_does_not_wait_for_those_of_a_call_that_came_before() -> None:
    many = [segment() for _ in range(200)]
    waiting = queue(*many)
    assert waiting.take(room(wanted=40), 0.0) == many[:40]
    one, beam = segment(), segment(rows=4)
    waiting.add([one], 0.0)
    waiting.add([beam], 0.0)
    assert waiting.take(room(wanted=6), 0.0) == [one, beam, many[40]]


def test_a_large_call_has_half_of_what_is_served_however_many_small_ones_come() -> None:
    many = [segment() for _ in range(320)]
    waiting = queue(*many)
    taken: list[Segment] = []
    for _ in range(320):
        waiting.add([segment()], 0.0)
        taken += waiting.take(room(wanted=1), 0.0)
    assert 120 <= len({*map(id, taken)} & {*map(id, many)}) <= 190


def test_calls_of_a_few_sentences_go_one_after_the_other() -> None:
    calls = [[segment(rows=5) for _ in range(5)] for _ in range(3)]
    waiting = WaitingQueue(capacity=1000)
    for call in calls:
        waiting.add(call, 0.0)
    assert waiting.take(room(rows=100, new=100), 0.0) == [each for call in calls for each in call]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30))
def test_calls_of_one_sentence_each_go_in_the_order_in_which_they_came(sizes: list[int]) -> None:
    waiting = WaitingQueue(capacity=1000)
    segments = [segment(rows=max(sizes)) for _ in sizes]
    for each in segments:
        waiting.add([each], 0.0)
    assert waiting.take(room(rows=200, new=200), 0.0) == segments


@given(st.lists(st.lists(st.tuples(st.integers(1, 8), st.integers(-1, 1)), min_size=1, max_size=6), max_size=8))
def test_everybody_has_his_turn(calls: list[list[tuple[int, int]]]) -> None:
    waiting = WaitingQueue(capacity=1000)
    added: list[Segment] = []
    taken: list[Segment] = []
    for sizes in calls:
        segments = [segment(rows=rows, priority=priority) for rows, priority in sizes]
        waiting.add(segments, 0.0)
        added += segments
        taken += waiting.take(room(wanted=1), 0.0)
    while waiting.count:
        taken += waiting.take(room(), 0.0)
    assert sorted(map(id, taken)) == sorted(map(id, added))


def at_ten_rows_a_second(waiting: WaitingQueue) -> WaitingQueue:
    """The queue after it was seen to let one row go every tenth of a second for a second."""
    for tenth in range(11):
        for _ in range(2):
            waiting.add([segment()], tenth / 10)
        waiting.take(room(wanted=1), tenth / 10)
    return waiting


def test_a_call_that_would_wait_beyond_its_deadline_is_refused_and_told_when_to_come_back() -> None:
    waiting = at_ten_rows_a_second(WaitingQueue(capacity=1000))
    assert waiting.count == 11  # as much as 1.1 s of work
    waiting.add([segment(deadline=1.0 + 1.6)], 1.0)
    with pytest.raises(QueueFull, match=r"about 1\.3 s of work with this call, whose deadline is in 1\.0 s") as caught:
        waiting.add([segment(deadline=1.0 + 1.0)], 1.0)
    assert caught.value.retry_after == pytest.approx(0.5, abs=0.05)
    waiting.add([segment()], 1.0)
    waiting.add([segment(priority=1, deadline=1.0 + 0.2)], 1.0)


def test_only_what_goes_first_counts_against_a_deadline() -> None:
    waiting = at_ten_rows_a_second(WaitingQueue(capacity=1000))
    waiting.add([segment() for _ in range(200)], 1.0)
    waiting.add([segment(deadline=1.0 + 6.0)], 1.0)
    with pytest.raises(QueueFull):
        waiting.add([segment(deadline=1.0 + 6.0) for _ in range(30)], 1.0)


def test_decoding_counts_against_a_deadline_too() -> None:
    waiting = at_ten_rows_a_second(WaitingQueue(capacity=1000))
    waiting.rate.decoded(5.0)
    with pytest.raises(QueueFull):
        waiting.add([segment(deadline=1.0 + 6.0)], 1.0)


def test_where_nothing_waits_every_deadline_is_tried() -> None:
    waiting = at_ten_rows_a_second(WaitingQueue(capacity=1000))
    waiting.take(room(), 2.0)
    waiting.add([segment(deadline=2.001)], 2.0)

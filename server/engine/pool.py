"""Runs the segments of one model and source width together: one step for all rows, greedy, beam and forced alike.

The pool decides who is in the batch; `regard.server.search` decides which tokens follow. It knows neither threads and
queues nor callers: it is given encoded segments and returns those that have ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.server.bounds import longest_target
from regard.server.engine.decoder import Decoder, Tensors
from regard.server.engine.rows import RowBuffers
from regard.server.engine.segment import Segment
from regard.server.request import Ids
from regard.server.search.batch_search import FEW_GREEDY_ROWS, FEW_HYPOTHESES, BatchSearch
from regard.server.search.hypothesis_store import HypothesisStore
from regard.server.search.rule import Slots
from regard.server.search.searches import Search, slots_needed
from regard.server.search.step import StepOutput


class Pool:
    """At most `capacity` rows of one model whose sources are padded to `width`, searched among one of its shortlists.

    Args:
        shortlist: see `PoolKey`.
        few_greedy_rows, few_hypotheses: see `BatchSearch`; 0 leaves everything to the array path.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        capacity: int,
        width: int,
        shortlist: int | None = None,
        few_greedy_rows: int = FEW_GREEDY_ROWS,
        few_hypotheses: int = FEW_HYPOTHESES,
    ) -> None:
        facts = decoder.facts
        vocabulary = facts.output_vocabulary(shortlist)
        self._facts = facts
        self._bos_id = vocabulary.bos_id
        self._width = width
        # A forced target may be longer; it makes the room that it needs when it comes.
        target = longest_target(width, facts.max_target_tokens)
        self._rows = RowBuffers(decoder, capacity=capacity, width=width, target=target, shortlist=shortlist)
        store = HypothesisStore(
            vocabulary,
            slots=capacity,
            steps=facts.max_target_tokens + 1,
            width=width,
            layers=facts.layers,
            heads=facts.heads,
            alignment_heads=facts.alignment_heads,
            alignment_lag=facts.alignment_lag,
        )
        self._search = BatchSearch(
            vocabulary, store, slots=capacity, few_greedy_rows=few_greedy_rows, few_hypotheses=few_hypotheses
        )
        self._capacity = capacity
        # Last in, first out: memory behind slots that were never used is never touched.
        self._free_slots = list(range(capacity - 1, -1, -1))
        self._source_length: Ids = np.zeros(capacity, dtype=np.int64)  # positions, padding not counted [slot]
        self._segments: dict[Search, Segment] = {}
        # No running segment's deadline comes before it.
        self._soonest = float("inf")
        self._steps = 0
        self._stepped_rows = 0
        # Rows, and the padding ratio of as many; forgotten when segments come or go.
        self._padding = (0, 0.0)

    @property
    def running(self) -> list[Segment]:
        """Segments that have rows, in the order in which they came."""
        return list(self._segments.values())

    @property
    def free(self) -> int:
        """Slots that nobody owns."""
        return len(self._free_slots)

    @property
    def owned(self) -> int:
        """Slots that segments own."""
        return self._capacity - len(self._free_slots)

    @property
    def rows(self) -> int:
        """Rows of the next step."""
        return self._rows.count

    @property
    def padding_ratio(self) -> float:
        """Share of the source positions of the next step that are padding; there must be a row."""
        rows = self._rows.count
        if self._padding[0] != rows:
            real = self._source_length.take(self._rows.slots[:rows])
            self._padding = rows, 1.0 - int(np.add.reduce(real)) / (rows * self._width)
        return self._padding[1]

    def admit(self, segments: Sequence[Segment], encoded: Tensors, *, now: float, encode_seconds: float) -> None:
        """Start segments, for which there is room, whose memory and state [segment, ...] encoding gave."""
        first: list[int] = []
        longest = 0
        self._padding = (0, 0.0)
        for segment in segments:
            request = segment.request
            slots = np.array([self._free_slots.pop() for _ in range(slots_needed(request))], dtype=np.intp)
            positions, limit = self._facts.positions(request.source), self._facts.target_limit(request)
            segment.search = self._search.begin(request, slots, limit=limit, positions=positions)
            segment.admitted = now
            segment.encode_seconds = encode_seconds
            segment.first_step, segment.first_row = self._steps, self._stepped_rows
            self._segments[segment.search] = segment
            first.append(slots.item(0))
            longest = max(longest, limit)
            self._source_length[slots] = positions
            self._soonest = min(self._soonest, request.context.deadline)
        # A beam starts from one hypothesis, so from one row; the others come with its first step.
        self._rows.append(np.array(first, dtype=np.intp), encoded, self._bos_id, target=longest)

    def overdue(self, now: float) -> list[Segment]:
        """Return the segments whose deadline has come."""
        if now < self._soonest:
            return []
        deadlines = [segment.request.context.deadline for segment in self._segments.values()]
        self._soonest = min(deadlines, default=float("inf"))
        return [segment for segment in self._segments.values() if segment.request.context.deadline <= now]

    def drop(self, segment: Segment) -> None:
        """Free the rows of a running segment, whatever it has."""
        if segment.search is None:
            raise ValueError("the segment was never admitted")
        self._free([segment.search])

    def step(self) -> list[Segment]:
        """Predict a token for every row and return the segments that end with it. There must be a row."""
        rows = self._rows
        rows.step()
        count = rows.count
        self._steps += 1
        self._stepped_rows += count
        advance = self._search.advance(
            StepOutput(
                rows.log_probs[:count],
                None if rows.attention is None else rows.attention[:count],
                rows.slots[:count],
                rows.row_of_slot,
                rows.token[:count],
            )
        )
        if advance.reordered is not None:
            rows.reorder(advance.reordered)
        if not (advance.finished or advance.broken):
            return []
        for search in advance.broken:
            rows.clear(search.slots)
        over = [*advance.broken, *advance.finished]
        ended: list[Segment] = []
        for search in over:
            segment = self._segments[search]
            segment.steps = self._steps - segment.first_step
            segment.mean_rows = (self._stepped_rows - segment.first_row) / segment.steps
            ended.append(segment)
        for search in advance.finished:
            self._segments[search].hypotheses = self._search.hypotheses(search)
        self._free(over)
        return ended

    def _free(self, searches: Sequence[Search]) -> None:
        slots: Slots = searches[0].slots
        if len(searches) > 1:
            slots = np.concatenate([search.slots for search in searches])
        self._padding = (0, 0.0)
        self._rows.remove(slots)
        self._search.end(searches)
        self._free_slots.extend(slots.tolist())
        for search in searches:
            del self._segments[search]

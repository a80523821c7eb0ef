"""Runs the segments of one model and source width together: one step for all rows, greedy, beam and forced alike.

Does not know threads, queues, clocks or callers: it is given encoded segments and returns those that have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.bounds import longest_target
from regard.server.engine.decoder import Decoder, Tensors
from regard.server.engine.rows import RowBuffers
from regard.server.engine.scheduler import Job
from regard.server.engine.slots import Running, SlotTable
from regard.server.request import Hypothesis, Weights
from regard.server.search.beams import BeamGroup, BeamSearch, Growth
from regard.server.search.candidates import best_tokens, given_scores
from regard.server.search.few_beams import FEW_IN_BEAMS, advance_few_beams
from regard.server.search.greedy import FEW, advance_few
from regard.server.search.hypothesis_store import History, Leaf
from regard.server.search.repetition import Repetition

Index = NDArray[np.intp]

_NOTHING: Index = np.zeros(0, dtype=np.intp)
_NO_WEIGHTS: Weights = np.zeros(0, dtype=np.float32)


class Ended(NamedTuple):
    """A segment that needs no more steps.

    Attributes:
        hypotheses: at most n_best, best first; None if its scores or attention held NaN or infinity.
        steps: that it took part in.
        mean_rows: rows in those steps.
    """

    running: Running
    hypotheses: tuple[Hypothesis, ...] | None
    steps: int
    mean_rows: float


class Pool:
    """At most `capacity` rows of one model whose sources are padded to `width`, and one of its choices of tokens.

    Attributes:
        running: segments that have rows.
    """

    def __init__(self, decoder: Decoder, *, capacity: int, width: int, choice: int | None = None) -> None:
        facts = decoder.facts.choosing(choice)
        self._facts = facts
        self._width = width
        # A forced target may be longer; it makes the room that it needs when it comes.
        target = longest_target(width, facts.max_target_tokens)
        self._rows = RowBuffers(decoder, capacity=capacity, width=width, target=target, choice=choice)
        self._table = SlotTable(capacity)
        self._history = History(facts, slots=capacity, width=width)
        special = {*facts.never, facts.end_id}
        self._ordinary = next(token for token in range(facts.scores_size + 1) if token not in special)
        never = sorted(token for token in facts.never if token < facts.scores_size)
        # A slice costs a fraction of what an index array does.
        self._never = slice(0, len(never)) if never == list(range(len(never))) else np.array(never, dtype=np.intp)
        self._search = BeamSearch(self._table, self._history, end=facts.end_id, ordinary=self._ordinary)
        self._repetition = Repetition(slots=capacity, steps=facts.max_target_tokens + 1, end=facts.end_id)
        self._groups: dict[int, BeamGroup] = {}
        self._forced = 0
        # Running segments of one slot each.
        self._singles = 0
        # Running segments that have a least length.
        self._minimal = 0
        # Running segments in which no run of tokens may come twice.
        self._unrepeated = 0
        # No running segment's deadline comes before it.
        self._soonest = float("inf")
        self._steps = 0
        self._stepped_rows = 0
        # Rows, and the padding ratio of as many; forgotten when segments come or go.
        self._padding = (0, 0.0)
        self.running: list[Running] = []

    @property
    def free(self) -> int:
        """Rows that nobody owns."""
        return self._table.free

    @property
    def owned(self) -> int:
        """Rows that segments own."""
        return self._table.owned

    @property
    def rows(self) -> int:
        """Rows of the next step."""
        return self._rows.count

    @property
    def padding_ratio(self) -> float:
        """Share of the source positions of the next step that are padding; there must be a row."""
        rows = self._rows.count
        if self._padding[0] != rows:
            real = self._table.source_length.take(self._rows.slots[:rows])
            self._padding = rows, 1.0 - int(np.add.reduce(real)) / (rows * self._width)
        return self._padding[1]

    def admit(self, jobs: Sequence[Job], encoded: Tensors, *, now: float, encode_seconds: float) -> None:
        """Start segments, for which there is room, whose memory and state [job, ...] encoding gave."""
        first: list[int] = []
        self._padding = (0, 0.0)
        for job in jobs:
            slots = self._table.claim(job.request, self._facts)
            running = Running(
                job=job,
                slots=slots,
                started=now,
                encode_seconds=encode_seconds,
                steps_before=self._steps,
                rows_before=self._stepped_rows,
            )
            for slot in slots.tolist():
                self._table.owner[slot] = running
            first.append(int(slots[0]))
            target = job.request.forced_target
            if target is not None:
                self._forced += 1
                columns = target if self._facts.ids is None else np.searchsorted(self._facts.ids[:-1], target)
                self._history.tokens[first[-1], : len(target)] = columns
                self._history.tokens[first[-1], len(target)] = self._facts.end_id
            elif len(slots) > 1:
                self._groups.setdefault(len(slots), BeamGroup(len(slots))).add(running)
            self._singles += len(slots) == 1
            self._minimal += _minimal(job)
            self._unrepeated += _unrepeated(job) > 0
            self._repetition.begin(slots, _unrepeated(job))
            self._soonest = min(self._soonest, job.request.context.deadline)
            self.running.append(running)
        # A beam starts from one hypothesis, so from one row; the others come with its first step.
        places = np.array(first, dtype=np.intp)
        longest = max(self._table.limit.take(places).tolist())
        self._rows.append(places, encoded, self._facts.begin_id, target=longest)

    def overdue(self, now: float) -> list[Running]:
        """Return the segments whose deadline has come."""
        if now < self._soonest:
            return []
        slots = self._rows.slots[: self.rows]
        deadline = self._table.deadline[slots]
        self._soonest = float(deadline.min(initial=np.inf))
        return self._owners(slots[deadline <= now])

    def drop(self, running: Running) -> None:
        """Free the rows of a segment, whatever it has."""
        self._leave([running])

    def step(self) -> list[Ended]:
        """Predict a token for every row and return the segments that end with it. There must be a row."""
        rows, table, history = self._rows, self._table, self._history
        rows.step()
        count = rows.count
        self._steps += 1
        self._stepped_rows += count
        if (few := self._step_few()) is not None:
            return self._end_all(few)
        slots, scores = rows.slots[:count], rows.scores[:count]
        length = table.length.take(slots)
        forced, target, given = _NOTHING, _NOTHING, None
        if self._forced:
            forced = np.flatnonzero(table.forced[slots])
            target = history.tokens[slots[forced], length[forced]]
            # Before anything is forbidden: a given target may hold any token.
            given = given_scores(scores, forced, target)
        scores[:, self._never] = -np.inf
        ending = scores[:, self._facts.end_id].copy() if self._unrepeated else _NO_WEIGHTS
        if self._minimal:
            np.copyto(scores[:, self._facts.end_id], -np.inf, where=length < table.minimum.take(slots))
        if self._unrepeated:
            self._repetition.forbid(scores, slots, length, ending)
        token, chosen, unsound = best_tokens(scores, self._ordinary)
        if given is not None:
            token[forced], chosen[forced] = target, given
            unsound = np.union1d(unsound, forced[~(given < np.inf)])
        if rows.attention is not None:
            attention = rows.attention[:count]
            history.look(slots, length, attention)
            # One NaN or infinity makes the sum of all of them so, too; only then it matters whose it is.
            if not np.isfinite(np.add.reduce(attention, axis=None)):
                unsound = np.union1d(unsound, np.flatnonzero(~np.isfinite(attention.sum(axis=(1, 2, 3)))))
        broken: list[Running] = []
        if len(unsound):
            broken = self._owners(slots[unsound])
            rows.clear(slots[unsound])
            scores[unsound] = 0.0
        longer = length + 1
        table.length[slots] = longer
        over: list[Running] = []
        if self._singles:
            # A row of a beam has its token and log-probability corrected by the search of its beam.
            history.tokens[slots, length] = token
            history.log_probabilities[slots, length] = chosen
            if self._unrepeated:
                self._repetition.say(slots, length, token)
            rows.token[:count] = token
            ends = token == self._facts.end_id
            if self._forced:
                ends[forced] = False
            last = ends | (longer >= table.limit.take(slots))
            if self._groups:
                last &= table.single[slots]
            over.extend(
                self._close(
                    int(slots[row]), int(length[row]), int(token[row]), float(chosen[row]), ended=bool(ends[row])
                )
                for row in last.nonzero()[0].tolist()
            )
        if self._groups:
            growths = [self._search.advance(group, scores, token, rows.row_of_slot) for group in self._groups.values()]
            over.extend(running for growth in growths for running in growth.over)
            self._grow(growths)

        return self._end_all(over, broken)

    def _step_few(self) -> Sequence[Running] | None:
        """Let few rows of one kind go on, and return segments that are over; None if this step is not for that."""
        rows, table, history, never, end = self._rows, self._table, self._history, self._never, self._facts.end_id
        if self._forced or self._unrepeated:
            return None
        if not self._groups and rows.count <= FEW:
            choices = advance_few(rows, table, history, never=never, end=end)
            if choices is not None:
                return [self._close(*choice[:4], ended=choice.ended) for choice in choices if choice.last]
        if not self._singles and self.owned <= FEW_IN_BEAMS:
            return advance_few_beams(self.running, rows, table, history, never=never, end=end)
        return None

    def _close(self, slot: int, length: int, token: int, log_probability: float, *, ended: bool) -> Running:
        """Note how the segment of one slot ends, and return it."""
        running = self._table.owner[slot]
        if running is None:
            raise RuntimeError("a row belongs to nobody")
        running.leaves.append(
            Leaf(
                parent=0,
                length=length,
                token=token,
                log_probability=log_probability,
                ended=ended,
                total=0.0,
            )
        )
        return running

    def _grow(self, growths: Sequence[Growth]) -> None:
        """Let hypotheses of beams go on from their parents' rows; all other rows have their own state already."""
        rows = self._rows
        slots = _joined([growth.slots for growth in growths])
        parents = _joined([growth.parents for growth in growths])
        if self._unrepeated:
            tokens = _joined([growth.tokens for growth in growths])
            self._repetition.follow(slots, rows.slots[parents], self._table.length[slots] - 1, tokens)
        mates = _joined([group.slots.reshape(-1) for group in self._groups.values()])
        rows.pick(slots, parents, mates)
        rows.token[rows.row_of_slot[slots]] = _joined([growth.tokens for growth in growths])

    def _end_all(self, over: Sequence[Running], unsound: Sequence[Running] = ()) -> list[Ended]:
        """Free the rows of segments that are over or unsound, and return what came of them."""
        ended = [self._end(running, None) for running in unsound]
        ended.extend(
            self._end(running, self._history.hypotheses(running.job.request, running.slots, running.leaves))
            for running in over
            if running not in unsound
        )
        if ended:
            self._leave([entry.running for entry in ended])
        return ended

    def _end(self, running: Running, hypotheses: tuple[Hypothesis, ...] | None) -> Ended:
        steps = self._steps - running.steps_before
        return Ended(running, hypotheses, steps, (self._stepped_rows - running.rows_before) / steps)

    def _owners(self, slots: Index) -> list[Running]:
        """Return the owners of slots, each once, in the order of the slots."""
        places: list[int] = slots.tolist()
        owners = [self._table.owner[slot] for slot in places]
        return list(dict.fromkeys(owner for owner in owners if owner is not None))

    def _leave(self, gone: Sequence[Running]) -> None:
        slots = gone[0].slots if len(gone) == 1 else np.concatenate([running.slots for running in gone])
        self._padding = (0, 0.0)
        self._rows.remove(slots)
        self._table.release(slots)
        for running in gone:
            self.running.remove(running)
            self._forced -= running.job.request.forced_target is not None
            self._minimal -= _minimal(running.job)
            self._unrepeated -= _unrepeated(running.job) > 0
            beams = len(running.slots)
            self._singles -= beams == 1
            if beams > 1:
                self._groups[beams].drop(running)
                if not self._groups[beams].members:
                    del self._groups[beams]


def _minimal(job: Job) -> bool:
    return job.request.forced_target is None and job.request.search.min_length > 0


def _unrepeated(job: Job) -> int:
    """Size of the runs of tokens that may not come twice; 0 allows all."""
    return 0 if job.request.forced_target is not None else job.request.search.no_repeat_ngram


def _joined(parts: Sequence[Index]) -> Index:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)

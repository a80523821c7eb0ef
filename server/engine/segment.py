"""Follows one segment from its submission to its outcome: what was asked, where it stands, what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from regard.contract.names import ModelKey
from regard.server.errors import RegardError
from regard.server.request import DecodeRequest, DecodeResult, Hypothesis, Weights
from regard.server.search.searches import Search


class PoolKey(NamedTuple):
    """Rows that can share a step.

    Attributes:
        model: that decodes them.
        width: that their sources are padded to.
        shortlist: of output tokens that is searched (`DecoderFacts.shortlists`); None for all tokens.
    """

    model: ModelKey
    width: int
    shortlist: int | None = None


class Status(Enum):
    """Where a segment stands; changed under the lock of the dispatch."""

    NEW = "new"
    WAITING = "waiting"  # in the queue
    TAKEN = "taken"  # out of the queue: a worker encodes it and then steps its rows, or it is about to be given up
    ANSWERED = "answered"  # its outcome is out, or about to be


@dataclass(slots=True, kw_only=True, eq=False)
class Segment:
    """One segment or picture on its way through the engine.

    Attributes:
        pool: where it can run.
        rows: that it takes there at most.
        request: what was asked.
        deliver: takes the outcome; called once, by whoever sets the status to ANSWERED.
        submitted: when it came; seconds.
        status: where it stands.
        cancelled: the caller went away.
        encoder_attention: of encoding [layer, head, query, source], once it is encoded and if that was asked for.
        search: its search in the pool, from admission on.
        admitted: when it was; seconds.
        encode_seconds: that the encoding of its batch took.
        first_step, first_row: steps of the pool, and rows in them, before it was admitted.
        steps, mean_rows: that it took part in, and rows in one of them; once it has ended.
        hypotheses: once it has ended: at most n_best, best first; None if log-probabilities or attention held NaN or
            infinity.
    """

    pool: PoolKey
    rows: int
    request: DecodeRequest
    deliver: Callable[[DecodeResult | RegardError], None]
    submitted: float
    status: Status = Status.NEW
    cancelled: bool = False
    encoder_attention: Weights | None = None
    search: Search | None = None
    admitted: float = 0.0
    encode_seconds: float = 0.0
    first_step: int = 0
    first_row: int = 0
    steps: int = 0
    mean_rows: float = 0.0
    hypotheses: tuple[Hypothesis, ...] | None = None

"""What the engine is asked and what it answers: one segment in, its hypotheses out, as ids and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Pixels = NDArray[np.uint8]
Weights = NDArray[np.float32]


class FinishReason(Enum):
    """Why a hypothesis ended."""

    END = "end"
    LENGTH = "length"
    FORCED = "forced"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How to search; every value is already checked against the limits of server and model.

    Attributes:
        beam_size: hypotheses kept at every step; 1 is greedy search.
        n_best: hypotheses returned.
        length_penalty: exponent of the length in the score.
        min_length: fewest target tokens, end of sentence not counted.
        max_length: most target tokens, end of sentence not counted.
        no_repeat_ngram: n-gram blocking: no n-gram of this many tokens occurs twice; 0 allows all.
    """

    beam_size: int
    n_best: int
    length_penalty: float
    min_length: int
    max_length: int
    no_repeat_ngram: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Who asks, how urgently, and under which ids; travels with a request from the first line to the last.

    Attributes:
        request_id: unique name of the call in logs.
        trace: W3C traceparent of the caller, or empty.
        principal: authenticated caller, or empty.
        priority: higher goes first.
        deadline: seconds of the monotonic clock.
    """

    request_id: str
    trace: str = ""
    principal: str = ""
    priority: int = 0
    deadline: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodeRequest:
    """One segment or picture to decode.

    Attributes:
        source: ids [source], end of sentence last; never empty. For a model that reads pictures pixels uint8
            [height, width, 3].
        search: how to search. Ignored but for `length_penalty` when `forced_target` is given.
        forced_target: ids [target] without end of sentence, to be scored instead of searched; may be empty.
        keep_attention: whether `Hypothesis.attention` holds every layer and head, or is None.
        keep_encoder_attention: whether `DecodeResult.encoder_attention` is there, or is None.
        context: who asks.
    """

    source: Ids | Pixels
    search: SearchOptions
    forced_target: Ids | None = None
    keep_attention: bool = False
    keep_encoder_attention: bool = False
    context: CallContext


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hypothesis:
    """One answer. Row i of every array explains target token i; the end of sentence is not among the rows.

    Attributes:
        tokens: ids [target], without end of sentence.
        log_probabilities: [target].
        end_log_probability: of the end of sentence; 0 if it was not generated.
        score: (sum of log_probabilities + end_log_probability) / n ** length_penalty, n counting the tokens and the end
            of sentence if it was generated, and at least 1.
        finish_reason: END, LENGTH or FORCED (a forced target is always scored with its end of sentence).
        alignment: mean over the bundle's alignment heads [target, source]; source counts real positions only, padding
            is cut off. [target, 0] for models without attention.
        attention: [layer, head, target, source], if it was asked for, else None.
    """

    tokens: Ids
    log_probabilities: Weights
    end_log_probability: float
    score: float
    finish_reason: FinishReason
    alignment: Weights
    attention: Weights | None


class Timing(NamedTuple):
    """Where the time of a segment went; seconds."""

    queue_seconds: float
    encode_seconds: float
    decode_seconds: float
    steps: int  # decode steps that the segment took part in
    mean_batch_rows: float  # rows in those steps, its own included


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodeResult:
    """The answer to one `DecodeRequest`.

    Attributes:
        hypotheses: at most n_best, best first, no two with equal tokens.
        timing: where the time went.
        encoder_attention: attention between the cells of the picture [layer, head, query, source], if it was asked
            for, else None.
    """

    hypotheses: tuple[Hypothesis, ...]
    timing: Timing
    encoder_attention: Weights | None = None

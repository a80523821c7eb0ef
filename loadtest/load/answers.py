"""Reads what a measured reply says: a digest of the answer, its tokens, where the server's time went, what is wrong.

It does not know when the reply was asked for or came.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from regard.loadtest.load.corpus import CAPTION
from regard.v1.attention_pb2 import Attention
from regard.v1.captioning_pb2 import CaptionResponse, CaptionResult
from regard.v1.decoding_pb2 import Hypothesis, Timing
from regard.v1.translation_pb2 import TranslateResponse

# Of a row of weights from 1: 16 bits a weight lose some thousandths.
TOLERANCE = 0.02


class Answer(NamedTuple):
    """One reply, reduced to what the figures need. The digest covers the texts alone, never timing."""

    digest: str = ""
    failed_texts: int = 0  # or pictures
    target_tokens: int = 0
    queue_seconds: float = 0.0  # the longest of the segments, which run side by side
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    steps: int = 0
    batch_rows: float = 0.0
    size: int = 0  # bytes
    fault: str = ""  # what an answer without failures lacks


NOTHING = Answer()


def read_answer(body: bytes, *, method: str, attention: bool) -> Answer | None:
    """Reduce a serialised reply to a method that did or did not ask for attention; None if it is not one."""
    try:
        return _captions(body, attention) if method == CAPTION else _translations(body, attention)
    except DecodeError:
        return None


def _translations(body: bytes, attention: bool) -> Answer:
    reply = TranslateResponse.FromString(body)
    segments = [segment for result in reply.results for segment in result.segments]
    best = [segment.hypotheses[0] for segment in segments if segment.hypotheses]
    answer = _answer(
        body,
        texts=[result.text for result in reply.results],
        failed=sum(result.HasField("error") for result in reply.results),
        best=best,
        timings=[segment.timing for segment in segments],
    )
    faults = ("no results",) if not reply.results else (_fault_of_weights(each) for each in best if attention)
    return answer._replace(fault=_first(faults))


def _captions(body: bytes, attention: bool) -> Answer:
    reply = CaptionResponse.FromString(body)
    whole = [result for result in reply.results if not result.HasField("error")]
    answer = _answer(
        body,
        texts=[result.text for result in reply.results],
        failed=len(reply.results) - len(whole),
        best=[result.hypotheses[0] for result in whole if result.hypotheses],
        timings=[result.timing for result in whole],
    )
    faults = ("no results",) if not reply.results else (_fault_of_caption(result, attention) for result in whole)
    return answer._replace(fault=_first(faults))


def _answer(
    body: bytes, *, texts: Sequence[str], failed: int, best: Sequence[Hypothesis], timings: Sequence[Timing]
) -> Answer:
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return Answer(
        digest=digest.hexdigest()[:16],
        failed_texts=failed,
        target_tokens=sum(len(hypothesis.tokens) for hypothesis in best),
        queue_seconds=max((timing.queue_seconds for timing in timings), default=0.0),
        encode_seconds=max((timing.encode_seconds for timing in timings), default=0.0),
        decode_seconds=max((timing.decode_seconds for timing in timings), default=0.0),
        steps=max((timing.steps for timing in timings), default=0),
        batch_rows=max((timing.mean_batch_rows for timing in timings), default=0.0),
        size=len(body),
    )


def _fault_of_caption(result: CaptionResult, attention: bool) -> str:
    if not result.text.strip():
        return "a caption is empty"
    if not result.hypotheses or not result.hypotheses[0].words:
        return "a caption has no words"
    if not attention:
        return ""
    best, cells = result.hypotheses[0], (result.image.rows, result.image.columns)
    shape = tuple(best.attention.shape)
    if best.HasField("attention") and shape != (len(best.words), *cells):
        return f"maps of {len(best.words)} words and {cells[0]} x {cells[1]} cells have the shape {shape}"
    return _fault_of_weights(best)


def _fault_of_weights(hypothesis: Hypothesis) -> str:
    if not hypothesis.HasField("attention"):
        return "attention was asked for and is not there"
    sums = _sums(hypothesis.attention)
    if sums is None:
        return "attention has not as many weights as its shape says"
    off = np.abs(sums - 1)
    # Not a number is neither near nor far.
    return "" if bool((off <= TOLERANCE).all()) else f"attention of a word sums to {sums[int(off.argmax())]:.3g}, not 1"


def _sums(attention: Attention) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """The sum of all weights of each target word or token, in the encoding that payloads ask for or the plainest."""
    shape = tuple(attention.shape)
    for kind in ("<f2", "<f4"):
        if len(attention.values) == int(np.prod(shape)) * np.dtype(kind).itemsize:
            weights = np.frombuffer(attention.values, dtype=kind).astype(np.float64)
            return weights.reshape(shape[0], -1).sum(axis=1) if shape and shape[0] else weights[:0]
    return None


def _first(faults: Iterable[str]) -> str:
    return next((fault for fault in faults if fault), "")

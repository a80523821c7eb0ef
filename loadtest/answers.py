"""Reads what a measured reply says: a digest of the answer, its tokens and where the server's time went.

It does not know when the reply was asked for or came.
"""

import hashlib
from typing import NamedTuple

from google.protobuf.message import DecodeError

from regard.v1.translation_pb2 import TranslateResponse


class Answer(NamedTuple):
    """One reply, reduced to what the figures need. The digest covers the texts alone, never timing."""

    digest: str = ""
    failed_texts: int = 0
    target_tokens: int = 0
    queue_seconds: float = 0.0  # the longest of the segments, which run side by side
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    steps: int = 0
    batch_rows: float = 0.0
    size: int = 0  # bytes


NOTHING = Answer()


def read_answer(body: bytes) -> Answer | None:
    """Reduce a serialised TranslateResponse; None if it is not one."""
    try:
        reply = TranslateResponse.FromString(body)
    except DecodeError:
        return None
    digest = hashlib.sha256()
    tokens = 0
    for result in reply.results:
        text = result.text.encode()
        digest.update(len(text).to_bytes(4, "big") + text)
        tokens += sum(len(segment.hypotheses[0].tokens) for segment in result.segments if segment.hypotheses)
    timings = [segment.timing for result in reply.results for segment in result.segments]
    return Answer(
        digest=digest.hexdigest()[:16],
        failed_texts=sum(result.HasField("error") for result in reply.results),
        target_tokens=tokens,
        queue_seconds=max((timing.queue_seconds for timing in timings), default=0.0),
        encode_seconds=max((timing.encode_seconds for timing in timings), default=0.0),
        decode_seconds=max((timing.decode_seconds for timing in timings), default=0.0),
        steps=max((timing.steps for timing in timings), default=0),
        batch_rows=max((timing.mean_batch_rows for timing in timings), default=0.0),
        size=len(body),
    )

"""Helps tests that call a real server: errors of calls that must fail, and a vocabulary that knows nothing.

It knows no test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc
import pytest

from regard.server.text.tokenization import SourceSegment, TextPipeline
from regard.v1 import attention_pb2

EVERY_HEAD = attention_pb2.AttentionOptions(reduction=attention_pb2.ATTENTION_REDUCTION_NONE)
TEXTS = ("echo1 echo2 echo3", "echo9", "echo4 echo5. echo6 echo7 echo8 echo10!", "echo11 echo12")


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """The error of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def know_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no sentence has anything that the vocabulary knows."""
    prepare = TextPipeline.prepare

    def unknown(self: TextPipeline, text: str, **options: Any) -> tuple[SourceSegment, ...]:
        return tuple(replace(segment, known=False) for segment in prepare(self, text, **options))

    monkeypatch.setattr(TextPipeline, "prepare", unknown)

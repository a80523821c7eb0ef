"""The cases about gRPC and load: G01, G02, G07 and L01.

It does not know what is translated, only how calls must behave.
"""

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.acceptance.case_server import TRANSLATE, CaseServer, Outcome, together

from regard.loadtest.base.processes import served, toy
from regard.loadtest.toy.selftest import callers_together
from regard.v1.attention_pb2 import ATTENTION_REDUCTION_NONE, AttentionOptions
from regard.v1.decoding_pb2 import DecodingOptions
from regard.v1.translation_pb2 import TranslateRequest

EVERYTHING = AttentionOptions(reduction=ATTENTION_REDUCTION_NONE)
MEBIBYTE = 2**20
SENTENCE = (
    "The old bridge was closed because the river had risen overnight, and nobody who lived on the far side could reach "
    "the market, the school or the doctor before the water had gone down again and two engineers had looked at it. "
)


def large_messages(server: CaseServer) -> list[Outcome]:
    """More than the 4 MiB that gRPC allows by itself, in both directions."""
    limit = server.limits.max_message_bytes
    texts = ["x" * 60_000] * 100
    asked = server.translate(*texts)
    size = sum(map(len, texts)) / MEBIBYTE
    big = [SENTENCE] * min(36, server.limits.max_texts)
    answered = server.translate(*big, attention=EVERYTHING, beam_size=10, n_best=10, min_length=64, seconds=180)
    reply = answered.response.ByteSize() / MEBIBYTE
    over = server.send_bytes(b"\x1a" + _varint(limit) + b"x" * limit)
    return [
        Outcome(
            "G01",
            f"request of {size:.1f} MiB",
            "taken: an answer about its texts",
            asked.short,
            asked.code in ("OK", "INVALID_ARGUMENT"),
        ),
        Outcome(
            "G01",
            f"{len(big)} texts, beam 10, all of n-best and attention",
            "OK and above 4 MiB, or RESOURCE_EXHAUSTED in words",
            f"{answered.code} {reply:.1f} MiB {answered.details[:80]}",
            reply > 4 or (answered.code == "RESOURCE_EXHAUSTED" and bool(answered.details)),
        ),
        Outcome(
            "G01",
            f"request above the stated {limit // MEBIBYTE} MiB",
            "RESOURCE_EXHAUSTED",
            over.short,
            over.code == "RESOURCE_EXHAUSTED",
        ),
    ]


def deadlines(server: CaseServer) -> list[Outcome]:
    """A hundred callers who give up after 50 ms."""
    alone = server.translate(*_heavy(server), beam_size=8)
    calls = together(lambda _: server.translate(*_heavy(server), beam_size=8, seconds=0.05), range(100), at_once=25)
    after = server.translate("Hello.")
    codes = sorted({reply.code for reply in calls})
    allowed = alone.seconds + 1
    return [
        Outcome(
            "G02",
            f"100 calls of {alone.seconds:.1f} s, deadline 50 ms",
            "DEADLINE_EXCEEDED",
            ", ".join(codes),
            set(codes) <= {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"} and "DEADLINE_EXCEEDED" in codes,
        ),
        Outcome(
            "G02",
            "one short call right after them",
            f"OK within {allowed:.1f} s: their work has ended",
            after.short,
            after.code == "OK" and after.seconds < allowed,
        ),
    ]


def health_under_load(server: CaseServer) -> list[Outcome]:
    """Health checks beside heavy calls."""
    body = TranslateRequest(texts=_heavy(server), decoding=DecodingOptions(beam_size=8)).SerializeToString()
    channel: Any = server.channel
    call: Callable[..., bytes] = channel.unary_unary(TRANSLATE, None, None)
    probes: list[float] = []
    with ThreadPoolExecutor(10) as pool:
        heavy = [pool.submit(lambda: call(body, timeout=60)) for _ in range(10)]
        until = time.monotonic() + 10
        while time.monotonic() < until and not all(future.done() for future in heavy):
            probes.append(server.seconds_of_health())
            time.sleep(0.1)
        for future in heavy:
            future.cancel()
    over = sum(seconds >= 0.1 for seconds in probes)
    got = f"{len(probes)} checks, {over} over, slowest {max(probes) * 1e3:.0f} ms"
    # 99 of 100 must be quick; of fewer, all but one.
    ok = over <= max(len(probes) // 100, 1)
    return [Outcome("G07", "health checks beside 10 heavy calls", "p99 below 100 ms", got, ok)]


def load_generator(server: CaseServer) -> list[Outcome]:
    """Callers who must not wait for one another."""
    with tempfile.TemporaryDirectory(prefix="regard-cases-") as folder, served(toy()) as slow:
        _, findings = callers_together(slow, Path(folder))
    return [Outcome("L01", finding.check, finding.expected, finding.got, finding.passed) for finding in findings]


def _heavy(server: CaseServer) -> list[str]:
    return [SENTENCE] * min(16, server.limits.max_texts)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])

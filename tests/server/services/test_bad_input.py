"""Input that crashed, hung or confused other servers, on a real one over the null bundle: it answers, and goes on."""

from __future__ import annotations

import asyncio
import logging

import grpc
import pytest
from tests.server.serving import PATIENCE, Served, fake_model, serving

from regard.server import logs
from regard.v1 import translation_pb2

TRANSLATE = "/regard.v1.TranslationService/Translate"
CONTROLS = "a\x1b[31mred\x00middle\x07bell\x7f\x9b31m\u202eb"


async def is_well(served: Served) -> None:
    """The server answers as if nothing had happened."""
    assert await served.health() == 1
    assert (await served.translate("echo1 echo2")).results[0].text


def texts_field(raw: bytes) -> bytes:
    """A TranslateRequest with one text of these bytes, whether UTF-8 or not."""
    assert len(raw) < 128
    return bytes([0x1A, len(raw)]) + raw


@pytest.mark.parametrize(
    "raw",
    [
        texts_field(b"\xed\xa0\x80"),  # a lone surrogate
        texts_field(b"\xc3\x28"),
        texts_field(b"\xff\xfe"),
        texts_field(b"good") + texts_field(b"\xf0\x9f\x98"),
        b"\x1a\x7f",
        b"\x00",
        bytes(range(256)),
        b"\x2a" * 100,
    ],
)
def test_bytes_that_are_no_request_fail_alone(raw: bytes) -> None:
    async def run() -> None:
        async with serving() as served:
            beside = asyncio.ensure_future(served.translate("echo1"))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await served.channel.unary_unary(TRANSLATE)(raw, timeout=PATIENCE)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert (await beside).results[0].text
            await is_well(served)

    asyncio.run(run())


@pytest.mark.parametrize(
    "text",
    [
        CONTROLS,
        "\x00",
        "\ufeffecho1",
        "?" * 3000,
        "ha " * 200,
        "echo1 \U0001f600 echo2. echo3.",
        "e\u0301" * 100,
        "\u200b\u200d\ufe0f",
        "<b>a & b</b>{{name}} %1$s https://example.org/a?b=1",
        "一二三四。五六七八。",
        "\u2028".join(["echo1"] * 50),
    ],
)
def test_odd_texts_are_answered_within_bounds(text: str) -> None:
    async def run() -> None:
        async with serving() as served:
            (result,) = (await served.translate(text)).results
            size = len(text.encode())
            for segment in result.segments:
                assert 0 <= segment.source_span.start < segment.source_span.end <= size
                assert len(segment.hypotheses[0].tokens) <= 256
            await is_well(served)

    asyncio.run(run())


@pytest.mark.parametrize("words", [254, 255, 256])
def test_the_bound_of_a_sentence_is_exact_and_told_in_tokens(words: int) -> None:
    async def run() -> None:
        async with serving() as served:
            call = served.translate("echo1 " * words)
            if words <= 255:
                assert len((await call).results[0].segments[0].source_tokens) == words + 1
            else:
                with pytest.raises(grpc.aio.AioRpcError, match="257 tokens; the limit is 256") as caught:
                    await call
                assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            await is_well(served)

    asyncio.run(run())


def test_a_text_of_a_mebibyte_is_refused_by_its_size() -> None:
    async def run() -> None:
        async with serving() as served:
            with pytest.raises(grpc.aio.AioRpcError, match="1048576 bytes; the limit is 65536"):
                await served.translate("x" * 1048576)
            await is_well(served)

    asyncio.run(run())


def test_no_log_line_holds_text_or_control_bytes_of_a_caller(caplog: pytest.LogCaptureFixture) -> None:
    async def fail_and_pass() -> None:
        async with serving(fake_model()) as served:
            await served.translate(CONTROLS, "very private")
            for request in (
                translation_pb2.TranslateRequest(texts=["very private"], model=CONTROLS),
                translation_pb2.TranslateRequest(texts=["very private"], target_language=CONTROLS),
                translation_pb2.TranslateRequest(texts=["very private " * 10_000]),
            ):
                with pytest.raises(grpc.aio.AioRpcError):
                    await served.translation.Translate(
                        request, timeout=PATIENCE, metadata=(("user-agent", "very private"),)
                    )

    with caplog.at_level(logging.DEBUG):
        asyncio.run(fail_and_pass())
    formatter = logs.LineFormatter(as_json=False, messages=False)
    lines = [formatter.format(record) for record in caplog.records if record.name.startswith(("regard", "server"))]
    assert len(lines) >= 4
    for line in lines:
        assert all(" " <= character <= "~" for character in line)
        assert "private" not in line
        assert "red" not in line.replace("exhausted", "")

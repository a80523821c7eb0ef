"""Bounds of a real server: sentences, bytes, memory, queue, deadlines; past one the answer is clear and at once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from tests.server.engine_fakes import constant_scores
from tests.server.service_calls import EVERY_HEAD, know_nothing, refused
from tests.server.serving import PATIENCE, VOCABULARY, Barrier, detail_of, eventually, fake_model, serving

from regard.server.services.translation_replies import write_translation
from regard.server.settings import Limits
from regard.server.text.tokenization import SourceSegment, TextPipeline
from regard.v1 import decoding_pb2, translation_pb2


@pytest.mark.parametrize("texts", [["echo1. echo2. echo3. echo4."], ["echo1. echo2.", "echo3. echo4."]])
def test_sentences_are_bounded_over_the_whole_call(texts: list[str]) -> None:
    async def run() -> None:
        async with serving(fake_model(), limits=Limits(max_segments_per_call=3)) as served:
            error = await refused(served.translate(*texts))
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "3" in (error.details() or "")

    asyncio.run(run())


def test_sentences_that_never_reach_the_model_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serving(fake_model(), limits=Limits(max_segments_per_call=3)) as served:
            know_nothing(monkeypatch)
            error = await refused(served.translate("echo1. echo2.", "echo3. echo4."))
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "at most 3 sentences in one call" in (error.details() or "")

    asyncio.run(run())


def test_a_large_reply_is_written_outside_of_the_event_loop_even_if_the_model_had_no_part_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def look(*arguments: Any, **options: Any) -> translation_pb2.TranslationResult:
        threads.append(threading.current_thread().name)
        return write_translation(*arguments, **options)

    monkeypatch.setattr("regard.server.services.translation_service.write_translation", look)

    async def run() -> None:
        async with serving(fake_model()) as served:
            know_nothing(monkeypatch)
            await served.translate("echo1. " * 300)
            assert len(threads) == 1
            assert threads[0].startswith("regard-offload")

    asyncio.run(run())


def test_a_call_whose_texts_would_fill_the_memory_is_given_up_while_they_are_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[str] = []
    prepare = TextPipeline.prepare

    def look(self: TextPipeline, text: str, **options: Any) -> tuple[SourceSegment, ...]:
        prepared.append(text)
        return prepare(self, text, **options)

    async def run() -> None:
        limits = Limits(max_message_bytes=500_000)
        async with serving(fake_model(), limits=limits, max_bytes_held=2_000_000) as served:
            monkeypatch.setattr(TextPipeline, "prepare", look)
            error = await refused(served.translate(*["echo1 " * 200] * 128))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "answering this call takes more than 1000000 bytes" in (error.details() or "")
            assert 1 < len(prepared) < 128
            assert (await served.translate("echo1")).results[0].text

    asyncio.run(run())


def test_the_deadline_of_the_server_ends_a_call_without_one() -> None:
    barrier = Barrier()

    async def run() -> None:
        async with serving(fake_model(before_step=barrier), default_deadline=0.2) as served:
            barrier.arm()
            call = served.translation.Translate(translation_pb2.TranslateRequest(texts=["echo1"]))
            assert (await refused(call)).code() is grpc.StatusCode.DEADLINE_EXCEEDED
            barrier.lift()

    asyncio.run(run())


def test_a_full_queue_is_told_at_once_with_a_time_to_come_back_and_nothing_is_lost() -> None:
    barrier = Barrier()

    async def run() -> None:
        bounds = Limits(max_segments_per_call=2)
        async with serving(fake_model(before_step=barrier), workers=1, rows=16, queue_limit=2, limits=bounds) as served:
            barrier.arm()
            beams = decoding_pb2.DecodingOptions(beam_size=16)  # One search fills the worker.
            engine = served.application.loaded.engine if served.application.loaded else None
            assert engine is not None
            calls = [asyncio.ensure_future(served.translate("echo1", decoding=beams))]
            # Before the others, or all three might meet in the queue, which holds two.
            await eventually(barrier.reached.is_set)
            calls += [asyncio.ensure_future(served.translate("echo1", decoding=beams)) for _ in range(2)]
            await eventually(lambda: engine.waiting == 2)
            error = await refused(served.translate("echo2"))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert detail_of(error, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() > 0
            assert int(dict(error.trailing_metadata() or ())["grpc-retry-pushback-ms"]) > 0
            barrier.lift()
            assert all(response.results[0].text for response in await asyncio.gather(*calls))

    asyncio.run(run())


def test_requests_and_replies_may_be_larger_than_the_default_of_grpc() -> None:
    async def run() -> None:
        endless = fake_model(score=constant_scores({4: 1.0}, vocabulary=VOCABULARY))
        async with serving(endless) as served:
            spaced = "echo1" + " " * 50_000
            assert all(result.text for result in (await served.translate(*[spaced] * 100)).results)
            response = await served.translate(*["echo1 " * 200] * 128, attention=EVERY_HEAD)
            assert response.ByteSize() > 4 * 1024 * 1024

    asyncio.run(run())


def test_messages_beyond_the_limit_are_refused_in_both_directions() -> None:
    async def run() -> None:
        limits = Limits(max_message_bytes=20_000, max_text_bytes=100_000)
        async with serving(fake_model(), limits=limits) as served:
            assert (await refused(served.translate("echo1" * 10_000))).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            error = await refused(served.translate(*["echo1 echo2 echo3"] * 100))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "the limit is 20000" in (error.details() or "")
            assert (await served.translate("echo1")).results[0].text

    asyncio.run(run())


def test_an_answer_that_would_fill_the_memory_is_given_up_while_it_grows() -> None:
    endless = fake_model(score=constant_scores({4: 0.5, 5: 0.3, 6: 0.2}, vocabulary=VOCABULARY))

    async def run() -> None:
        limits = Limits(max_message_bytes=500_000)
        async with serving(endless, limits=limits, max_bytes_held=2_000_000) as served:
            best = decoding_pb2.DecodingOptions(beam_size=8, n_best=8)
            large = served.translate(*["echo1 " * 30] * 20, decoding=best, attention=EVERY_HEAD)
            error = await refused(large)
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "answering this call takes more than 1000000 bytes" in (error.details() or "")
            assert (await served.translate("echo1")).results[0].text

    asyncio.run(run())


def test_large_texts_are_prepared_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    prepare = TextPipeline.prepare

    def look(self: TextPipeline, text: str, **options: Any) -> tuple[SourceSegment, ...]:
        threads.append(threading.current_thread().name)
        return prepare(self, text, **options)

    monkeypatch.setattr(TextPipeline, "prepare", look)

    async def run() -> None:
        async with serving(fake_model()) as served:
            threads.clear()
            await served.translate("echo1 " * 200, "echo2. " * 400)
            assert len(threads) == 2
            assert all(name.startswith("regard-offload") for name in threads)

    asyncio.run(run())


def test_health_answers_while_every_thread_is_busy_with_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    held: list[str] = []
    prepare = TextPipeline.prepare

    def wait(self: TextPipeline, text: str, **options: Any) -> tuple[SourceSegment, ...]:
        if len(text) >= 1000:
            held.append(text)
            assert release.wait(PATIENCE)
        return prepare(self, text, **options)

    monkeypatch.setattr(TextPipeline, "prepare", wait)

    async def run() -> None:
        async with serving(fake_model()) as served:
            heavy = [asyncio.ensure_future(served.translate("echo1 " * 100 + " " * 2000)) for _ in range(10)]
            try:
                await eventually(lambda: len(held) == 2)  # As many as there are threads.
                assert await asyncio.wait_for(served.health(), PATIENCE) == 1
                assert (await served.translate("echo1")).results[0].text
            finally:
                release.set()
            await asyncio.gather(*heavy)

    asyncio.run(run())

"""What a caller gets from a real server: answers, errors by item and by call, and nobody else's trouble."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from tests.server.engine_fakes import END, Prefix
from tests.server.service_calls import EVERY_HEAD, TEXTS, refused
from tests.server.serving import PATIENCE, Barrier, Served, detail_of, eventually, fake_model, serving

from regard.server.settings import Limits
from regard.server.text.tokenization import SourceSegment, TextPipeline
from regard.v1 import attention_pb2, decoding_pb2, model_pb2, translation_pb2


def without_times(result: translation_pb2.TranslationResult) -> translation_pb2.TranslationResult:
    """The answer itself."""
    copy = translation_pb2.TranslationResult()
    copy.CopyFrom(result)
    for segment in copy.segments:
        segment.ClearField("timing")
    return copy


def test_texts_are_answered_in_order_as_they_would_be_alone() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            together = await served.translate(*TEXTS, attention=EVERY_HEAD)
            alone = [(await served.translate(text, attention=EVERY_HEAD)).results[0] for text in TEXTS]
            assert list(map(without_times, together.results)) == list(map(without_times, alone))
            assert [len(result.segments) for result in together.results] == [1, 1, 2, 1]
            assert together.model.name == "null"
            assert len({result.text for result in together.results}) == len(TEXTS)

    asyncio.run(run())


@pytest.mark.parametrize("texts", [[], [""], ["   \n"], ["", "echo1"]])
def test_no_text_and_blank_texts_are_fine_and_never_reach_the_model(texts: list[str]) -> None:
    model = fake_model()

    async def run() -> None:
        async with serving(model) as served:
            warm_up = len(model.encoded)
            response = await served.translate(*texts)
            assert [bool(result.text) for result in response.results] == ["echo1" in text for text in texts]
            assert not any(result.HasField("error") for result in response.results)
            assert len(model.encoded) - warm_up == texts.count("echo1")

    asyncio.run(run())


def test_sentences_of_which_the_vocabulary_knows_nothing_never_reach_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = TextPipeline.prepare

    def know_only_echo1(self: TextPipeline, text: str, **options: Any) -> tuple[SourceSegment, ...]:
        return tuple(replace(segment, known=5 in segment.ids) for segment in prepare(self, text, **options))

    model = fake_model()

    async def run() -> None:
        async with serving(model) as served:
            monkeypatch.setattr(TextPipeline, "prepare", know_only_echo1)
            model.encoded.clear()
            mixed, unknown = (await served.translate("echo2. echo1. echo3.", "echo4")).results
            assert [len(segment.hypotheses[0].tokens) > 0 for segment in mixed.segments] == [False, True, False]
            assert unknown.text == ""
            assert sum(len(sources) for _, sources in model.encoded) == 1

    asyncio.run(run())


def test_a_bad_text_fails_alone_among_others_and_as_a_call_by_itself() -> None:
    async def run() -> None:
        async with serving(fake_model(), limits=Limits(max_text_bytes=100)) as served:
            long = "echo1 " * 20
            response = await served.translate("echo1", long, "echo2")
            good, bad, other = response.results
            assert good.text
            assert other.text
            assert bad.error.code == code_pb2.INVALID_ARGUMENT
            assert bad.error.field == "texts[1]"
            assert "120" in bad.error.message
            assert "100" in bad.error.message
            error = await refused(served.translate(long))
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert detail_of(error, error_details_pb2.BadRequest).field_violations[0].field == "texts[0]"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (translation_pb2.TranslateRequest(model="unheard-of"), grpc.StatusCode.NOT_FOUND),
        (translation_pb2.TranslateRequest(version="77"), grpc.StatusCode.NOT_FOUND),
        (translation_pb2.TranslateRequest(target_language="xx"), grpc.StatusCode.INVALID_ARGUMENT),
        (
            translation_pb2.TranslateRequest(decoding=decoding_pb2.DecodingOptions(beam_size=17)),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            translation_pb2.TranslateRequest(decoding=decoding_pb2.DecodingOptions(beam_size=0)),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            translation_pb2.TranslateRequest(attention=attention_pb2.AttentionOptions(top_k=0)),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (translation_pb2.TranslateRequest(texts=["echo3"] * 127), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_what_the_whole_call_got_wrong_fails_the_call(
    wrong: translation_pb2.TranslateRequest, code: grpc.StatusCode
) -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            request = translation_pb2.TranslateRequest(texts=["echo1", "echo2"])
            request.MergeFrom(wrong)
            assert (await refused(served.translation.Translate(request, timeout=PATIENCE))).code() is code

    asyncio.run(run())


def test_names_that_callers_invent_do_not_become_labels() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            await refused(served.translate("echo1", model="unheard-of"))
            await served.translate("echo1")
            samples = [sample for family in served.application.metrics.registry.collect() for sample in family.samples]
            models = {sample.labels["model"] for sample in samples if "model" in sample.labels}
            assert models == {"", "null"}

    asyncio.run(run())


def test_pairs_are_scored_in_order_and_a_blank_source_fails_alone() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            pairs = [("echo1 echo2", "echo5 echo6"), (" ", "echo5"), ("echo1 echo2", ""), ("echo3. echo4.", "echo7")]
            request = translation_pb2.ScoreTranslationRequest(
                pairs=[translation_pb2.TranslationPair(source=source, target=target) for source, target in pairs],
                attention=EVERY_HEAD,
            )
            scored, blank, empty, unsplit = (
                await served.translation.ScoreTranslation(request, timeout=PATIENCE)
            ).results
            assert [token.id for token in scored.segment.hypotheses[0].tokens] == [9, 10]
            assert scored.segment.hypotheses[0].finish_reason == decoding_pb2.FINISH_REASON_FORCED
            assert list(scored.segment.hypotheses[0].attention.shape) == [1, 1, 2, 3]
            assert blank.error.field == "pairs[1].source"
            assert blank.error.code == code_pb2.INVALID_ARGUMENT
            assert len(empty.segment.hypotheses[0].tokens) == 0
            assert empty.segment.hypotheses[0].score < 0
            assert len(unsplit.segment.source_tokens) > 3

    asyncio.run(run())


def test_a_translation_scores_as_the_search_said() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            found = (await served.translate("echo1 echo2 echo3")).results[0].segments[0].hypotheses[0]
            pair = translation_pb2.TranslationPair(source="echo1 echo2 echo3", target=found.text)
            request = translation_pb2.ScoreTranslationRequest(pairs=[pair])
            (scored,) = (await served.translation.ScoreTranslation(request, timeout=PATIENCE)).results
            assert scored.segment.hypotheses[0].score == pytest.approx(found.score, abs=1e-4)

    asyncio.run(run())


def test_a_step_that_raises_is_internal_and_the_next_call_is_well() -> None:
    broken = threading.Event()

    def break_once(sources: list[Prefix]) -> None:
        if broken.is_set():
            broken.clear()
            raise RuntimeError("the device is on fire")

    async def run() -> None:
        async with serving(fake_model(before_step=break_once)) as served:
            before = await served.translate(TEXTS[0])
            broken.set()
            error = await refused(served.translate(TEXTS[0]))
            assert error.code() is grpc.StatusCode.INTERNAL
            assert "fire" not in (error.details() or "")
            after = await served.translate(TEXTS[0])
            assert without_times(after.results[0]) == without_times(before.results[0])
            assert await served.health() == 1

    asyncio.run(run())


def test_a_text_that_the_model_cannot_encode_fails_alone() -> None:
    def refuse(sources: list[Prefix]) -> None:
        if any(13 in source for source in sources):  # echo9
            raise RuntimeError("no such luck")

    async def run() -> None:
        async with serving(fake_model(before_encode=refuse)) as served:
            response = await served.translate(*TEXTS)
            assert [result.error.code for result in response.results] == [0, code_pb2.INTERNAL, 0, 0]
            assert response.results[1].error.field == "texts[1]"

    asyncio.run(run())


@pytest.mark.parametrize("way", ["cancel", "deadline"])
def test_a_caller_that_leaves_frees_its_rows_and_changes_no_other_answer(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = threading.Event()
    barrier = Barrier()
    model = fake_model(before_step=barrier)

    async def run() -> None:
        async with serving(model, workers=1) as served:
            expected = await served.translate(TEXTS[0])
            engine = served.application.loaded.engine if served.application.loaded else None
            assert engine is not None
            await eventually(lambda: engine.running == 0)
            cancel = engine.cancel
            monkeypatch.setattr(engine, "cancel", lambda ticket: (cancel(ticket), given_up.set()))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - a stand-in
            barrier.arm()
            request = translation_pb2.TranslateRequest(texts=[TEXTS[3]])
            patience = 0.3 if way == "deadline" else PATIENCE
            leaving = served.translation.Translate(request, timeout=patience)
            await eventually(lambda: barrier.reached.is_set() or leaving.done())
            while not barrier.reached.is_set():  # On a slow machine the deadline may pass on the way here.
                patience *= 2
                leaving = served.translation.Translate(request, timeout=patience)
                await eventually(lambda leaving=leaving: barrier.reached.is_set() or leaving.done())
            staying = asyncio.ensure_future(served.translate(TEXTS[0]))
            await eventually(lambda: engine.waiting >= 1)
            if way == "cancel":
                leaving.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await leaving
            else:
                assert (await refused(leaving)).code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await eventually(given_up.is_set)  # The server hears of it.
            steps = len(model.steps)
            barrier.lift()
            assert without_times((await staying).results[0]) == without_times(expected.results[0])
            # The step that was waiting may hold the row of the one who left, no later one does.
            lost = (15, 16, END)  # echo11 echo12
            assert all(lost not in sources for sources in model.steps[steps:])
            await eventually(lambda: engine.running == engine.waiting == 0)

    asyncio.run(run())


def test_models_are_listed_and_described() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            listed = await served.models.ListModels(model_pb2.ListModelsRequest(), timeout=PATIENCE)
            (model,) = listed.models
            assert (model.name, model.version, model.is_default) == ("null", "1", True)
            assert listed.limits.max_texts == 128
            one = await served.models.GetModel(model_pb2.GetModelRequest(name="null"), timeout=PATIENCE)
            assert one.model == model
            assert one.bundle.limits.max_source_tokens == 256
            missing = served.models.GetModel(model_pb2.GetModelRequest(name="null", version="2"), timeout=PATIENCE)
            error = await refused(missing)
            assert error.code() is grpc.StatusCode.NOT_FOUND
            assert detail_of(error, error_details_pb2.ResourceInfo).resource_name == "null/2"

    asyncio.run(run())


def test_model_requests_with_unknown_fields_are_refused() -> None:
    unknown = b"\xfa\x07\x01x"  # field 127

    async def run() -> None:
        async with serving(fake_model()) as served:
            for call in (
                served.models.ListModels(model_pb2.ListModelsRequest.FromString(unknown), timeout=PATIENCE),
                served.models.GetModel(model_pb2.GetModelRequest.FromString(unknown), timeout=PATIENCE),
            ):
                error = await refused(call)
                assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "field number 127" in (error.details() or "")

    asyncio.run(run())


def test_the_null_bundle_answers_through_its_own_graphs() -> None:
    async def run() -> None:
        async with serving() as served:
            assert (await served.translate("echo1 echo2")).results[0].text.split()[0] == "echo"

    asyncio.run(run())


def served_metrics(served: Served) -> dict[str, float]:
    """Values of metrics without labels."""
    families = served.application.metrics.registry.collect()
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def test_metrics_count_what_the_engine_did() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            before = served_metrics(served)
            await served.translate(*TEXTS)
            after = served_metrics(served)
            assert after["regard_queue_seconds_count"] - before["regard_queue_seconds_count"] == 5
            first = "regard_time_to_first_token_seconds_count"
            assert after[first] - before[first] == 5
            assert after["regard_step_rows_sum"] > before["regard_step_rows_sum"]
            provider = {"provider": "FakeExecutionProvider"}
            assert served.application.metrics.registry.get_sample_value("regard_provider_info", provider) == 1

    asyncio.run(run())

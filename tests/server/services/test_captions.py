"""Captions over gRPC, from a model without weights that says which colours it sees and looks at what is red."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from PIL import Image
from tests.server import picture_files as files
from tests.server.caption_fakes import (
    CELLS,
    COLUMNS,
    LONGEST,
    ROWS,
    SIDE,
    FakeCaptioner,
    colours_of,
    words,
    write_caption_bundle,
)
from tests.server.caption_serving import captioning, in_a_loop, weights_of
from tests.server.serving import PATIENCE, detail_of, eventually

from regard.server.settings import Limits
from regard.v1 import attention_pb2, bundle_pb2, captioning_pb2, decoding_pb2, model_pb2

SCENE = words(*files.QUARTERS)
Decoding = decoding_pb2.DecodingOptions
Attention = attention_pb2.AttentionOptions
ALL_ALLOWED = Decoding(no_repeat_ngram=0)
SMALL = Limits(max_message_bytes=2 * 1024 * 1024)
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def models(tmp_path: Path) -> Path:
    write_caption_bundle(tmp_path)
    return tmp_path


@in_a_loop
async def test_a_picture_gets_its_caption_and_what_was_read_of_it(models: Path) -> None:
    async with captioning(models) as server:
        reply = await server.caption(files.rotated(6, "JPEG"))
    (result,) = reply.results
    assert (reply.model.name, reply.model.version, reply.model.profile) == ("captions", "1", "cpu")
    assert result.text == result.hypotheses[0].text == SCENE
    assert result.image == captioning_pb2.Image(
        format="JPEG", width=files.WIDTH, height=files.HEIGHT, orientation=6, rows=ROWS, columns=COLUMNS
    )
    assert result.hypotheses[0].finish_reason == decoding_pb2.FINISH_REASON_END
    assert [token.piece for token in result.hypotheses[0].tokens] == SCENE.split()
    assert result.timing.steps == 5
    assert not result.hypotheses[0].HasField("attention")
    assert not result.hypotheses[0].alignments


@pytest.mark.parametrize("name", files.all_alike())
@in_a_loop
async def test_one_scene_gets_one_caption_whatever_file_it_comes_in(models: Path, name: str) -> None:
    """I01, I02, I03, I06 and I08."""
    async with captioning(models) as server:
        reply = await server.caption(files.all_alike()[name])
    assert reply.results[0].text == SCENE


@in_a_loop
async def test_many_pictures_are_answered_in_order_and_a_bad_one_fails_alone(models: Path) -> None:
    blue = files.png(Image.new("RGB", (9, 9), files.BLUE))
    async with captioning(models) as server:
        reply = await server.caption(files.png(), b"no picture", blue, b"", files.jpeg(), decoding=ALL_ALLOWED)
    assert [result.text for result in reply.results] == [SCENE, "", words(*["blue"] * 4), "", SCENE]
    errors = {index: result.error for index, result in enumerate(reply.results) if result.HasField("error")}
    assert {index: error.field for index, error in errors.items()} == {1: "images[1]", 3: "images[3]"}
    assert all(error.code == 3 for error in errors.values())


@in_a_loop
async def test_no_pictures_are_answered_with_nothing(models: Path) -> None:
    async with captioning(models) as server:
        assert not (await server.caption()).results


@pytest.mark.parametrize(
    "data", [*files.all_damaged().values(), *(data for data, _ in files.none_at_all().values()), files.bomb(20_000)]
)
@in_a_loop
async def test_a_picture_that_cannot_be_read_is_the_callers_error(models: Path, data: bytes) -> None:
    """I10, I11, I15 and I16."""
    async with captioning(models) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(data)
        assert (await server.caption(files.png())).results[0].text == SCENE
    assert caught.value.code() == INVALID
    (violation,) = detail_of(caught.value, error_details_pb2.BadRequest).field_violations
    assert violation.field == "images[0]"
    assert "object at" not in violation.description


@pytest.mark.parametrize("size", [(1, 1), (4000, 1), (10, 10_000)])
@in_a_loop
async def test_any_proportions_are_captioned(models: Path, size: tuple[int, int]) -> None:
    """I13 and I14."""
    async with captioning(models) as server:
        reply = await server.caption(files.png(Image.new("RGB", size, files.GREEN)), decoding=ALL_ALLOWED)
    assert reply.results[0].text == words(*["green"] * 4)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"decoding": Decoding(no_repeat_ngram=17)}, "decoding.no_repeat_ngram"),
        ({"decoding": Decoding(no_repeat_ngram=-1)}, "decoding.no_repeat_ngram"),
        ({"decoding": Decoding(beam_size=17)}, "decoding.beam_size"),
        ({"decoding": Decoding(max_length=LONGEST + 1)}, "decoding.max_length"),
        ({"attention": Attention(top_k=0)}, "attention.top_k"),
        ({"images": [b"x"] * 65}, "images"),
    ],
)
@in_a_loop
async def test_an_option_out_of_bounds_is_refused_by_name(models: Path, fields: dict[str, Any], field: str) -> None:
    async with captioning(models) as server:
        images = fields.pop("images", [files.png()])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(*images, **fields)
    assert caught.value.code() == INVALID
    assert detail_of(caught.value, error_details_pb2.BadRequest).field_violations[0].field == field


@pytest.mark.parametrize("corner", ["upper left", "upper right", "lower left", "lower right"])
@pytest.mark.parametrize("size", [(600, 200), (200, 600)])
@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 8])
@in_a_loop
async def test_a_map_peaks_where_the_red_square_is_in_the_upright_picture(
    models: Path, corner: str, size: tuple[int, int], orientation: int
) -> None:
    """D17."""
    picture = files.with_red_square(*size, corner=corner)
    async with captioning(models) as server:
        reply = await server.caption(files.rotated(orientation, "PNG", picture), attention=Attention())
    (result,) = reply.results
    attention = result.hypotheses[0].attention
    assert list(attention.axes) == ["target", "row", "column"]
    maps = weights_of(attention)
    assert maps.shape == (len(result.hypotheses[0].tokens), ROWS, COLUMNS)
    np.testing.assert_allclose(maps.sum(axis=(1, 2)), 1, atol=1e-5)
    row, column = divmod(int(maps[0].argmax()), COLUMNS)
    assert (result.image.width, result.image.height) == size
    x, y = (column + 0.5) / COLUMNS * result.image.width, (row + 0.5) / ROWS * result.image.height
    assert picture.getpixel((int(x), int(y))) == (255, 0, 0)


@in_a_loop
async def test_maps_come_as_they_are_asked_for(models: Path) -> None:
    async with captioning(models) as server:

        async def ask(**options: Any) -> attention_pb2.Attention:
            reply = await server.caption(files.png(), attention=Attention(**options))
            return reply.results[0].hypotheses[0].attention

        whole = await ask()
        by_word = await ask(granularity=attention_pb2.ATTENTION_GRANULARITY_WORD)
        heads = await ask(reduction=attention_pb2.ATTENTION_REDUCTION_NONE)
        few = await ask(top_k=3)
        bytes_only = await ask(encoding=attention_pb2.ATTENTION_ENCODING_UINT8)
    assert weights_of(by_word).shape == (4, ROWS, COLUMNS)
    assert list(heads.axes) == ["layer", "head", "target", "row", "column"]
    np.testing.assert_array_equal(weights_of(heads)[0, 0], weights_of(whole))
    assert (list(few.axes), list(few.shape)) == (["target", "k"], [4, 3])
    cells = np.frombuffer(few.indices, dtype="<u2").reshape(4, 3)
    np.testing.assert_array_equal(
        np.take_along_axis(weights_of(whole).reshape(4, CELLS), cells.astype(np.intp), axis=1), weights_of(few)
    )
    assert len(bytes_only.values) == 4 * CELLS


@pytest.mark.parametrize("beam_size", [1, 3, 5])
@in_a_loop
async def test_a_model_that_never_ends_gives_a_cut_caption_with_its_maps(models: Path, beam_size: int) -> None:
    """D02."""
    async with captioning(models, captioner=FakeCaptioner(endless=True)) as server:
        reply = await server.caption(
            files.png(), decoding=Decoding(beam_size=beam_size, n_best=beam_size), attention=Attention()
        )
    assert len(reply.results[0].hypotheses) == beam_size
    for hypothesis in reply.results[0].hypotheses:
        assert hypothesis.finish_reason == decoding_pb2.FINISH_REASON_LENGTH
        assert weights_of(hypothesis.attention).shape == (LONGEST, ROWS, COLUMNS)
        assert np.isfinite(hypothesis.score)


@in_a_loop
async def test_no_three_tokens_come_twice_unless_that_is_asked_for(models: Path) -> None:
    async with captioning(models, captioner=FakeCaptioner(repeating=True, endless=True)) as server:
        by_default = (await server.caption(files.png())).results[0].text.split()
        all_allowed = (await server.caption(files.png(), decoding=ALL_ALLOWED)).results[0].text.split()
    runs = [tuple(by_default[start : start + 3]) for start in range(len(by_default) - 2)]
    assert len(set(runs)) == len(runs)
    assert all_allowed == [all_allowed[0]] * LONGEST


@in_a_loop
async def test_a_translator_is_not_asked_for_captions_nor_a_captioner_for_translations(models: Path) -> None:
    async with captioning(models) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caption:
            await server.caption(files.png(), model="null")
        with pytest.raises(grpc.aio.AioRpcError) as translation:
            await server.served.translate("hello", model="captions")
    for caught, named in ((caption, "null is for translation"), (translation, "captions is for captioning")):
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert named in (caught.value.details() or "")
        assert detail_of(caught.value, error_details_pb2.ErrorInfo).reason == "WRONG_TASK"


@in_a_loop
async def test_requests_without_a_name_get_a_model_of_their_task(models: Path) -> None:
    """Whichever name comes first."""
    async with captioning(models) as server:
        assert (await server.caption(files.png())).model.name == "captions"
        assert (await server.served.translate("hello")).model.name == "null"
        assert (await server.served.models.GetModel(model_pb2.GetModelRequest())).model.name == "null"


@in_a_loop
async def test_a_default_that_is_named_counts_for_its_task(models: Path) -> None:
    write_caption_bundle(models, name="others")
    async with captioning(models, default_model="others") as server:
        assert (await server.caption(files.png())).model.name == "others"
        assert (await server.served.translate("hello")).model.name == "null"


@in_a_loop
async def test_a_server_without_a_captioner_says_so() -> None:
    async with captioning() as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(files.png())
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert "no captioning model is loaded" in (caught.value.details() or "")


@in_a_loop
async def test_a_model_without_attention_has_no_maps_to_give(tmp_path: Path) -> None:
    write_caption_bundle(tmp_path, without_attention=True)
    async with captioning(tmp_path) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(files.png(), attention=Attention())
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION


@in_a_loop
async def test_models_are_listed_with_their_task_and_what_they_read(models: Path) -> None:
    async with captioning(models) as server:
        listed = await server.served.models.ListModels(model_pb2.ListModelsRequest())
    by_name = {model.name: model for model in listed.models}
    assert by_name["captions"].task == bundle_pb2.TASK_CAPTIONING
    assert (by_name["captions"].image.height, by_name["captions"].image.rows) == (SIDE, ROWS)
    assert not by_name["null"].HasField("image")
    assert by_name["captions"].is_default
    assert by_name["null"].is_default
    assert (listed.limits.max_images, listed.limits.max_image_bytes) == (64, 16 * 1024 * 1024)
    assert listed.limits.max_image_pixels == 50_000_000


@in_a_loop
async def test_captions_have_health_reflection_metrics_and_an_access_line(
    models: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with captioning(models) as server:
        assert await server.served.health("regard.v1.CaptioningService") == 1
        with caplog.at_level(logging.INFO, logger="regard.access"):
            await server.caption(files.png())
        labels = {
            "method": "regard.v1.CaptioningService/Caption",
            "model": "captions",
            "code": "OK",
        }
        metrics = server.served.application.metrics.registry
        assert metrics.get_sample_value("regard_requests_total", labels) == 1
        # A picture has no tokens, and the warm-up of the translator has.
        target = metrics.get_sample_value("regard_tokens_total", {"kind": "target"})
    assert target is not None
    said = str(caplog.records[-1].__dict__)
    assert "regard.v1.CaptioningService/Caption" in said
    assert "captions/1" in said


@in_a_loop
async def test_a_caller_who_leaves_frees_what_waits(models: Path) -> None:
    async with captioning(models) as server:
        call = server.stub.Caption(captioning_pb2.CaptionRequest(images=[files.png()] * 30), timeout=PATIENCE)
        await asyncio.sleep(0.01)
        call.cancel()
        engine = server.served.application.loaded
        assert engine is not None
        await eventually(lambda: engine.engine.waiting == engine.engine.running == 0)
        assert (await server.caption(files.png())).results[0].text == SCENE


@in_a_loop
async def test_a_deadline_ends_a_call_whose_pictures_wait(models: Path) -> None:
    async with captioning(models) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.stub.Caption(captioning_pb2.CaptionRequest(images=[files.jpeg()] * 40), timeout=0.02)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


@in_a_loop
async def test_an_encoder_that_fails_is_our_fault_and_the_server_goes_on(models: Path) -> None:
    captioner = FakeCaptioner()
    async with captioning(models, captioner=captioner) as server:

        def fail(pictures: int) -> None:
            raise RuntimeError("a broken kernel")

        captioner.before_encode = fail
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(files.png())
        captioner.before_encode = lambda pictures: None
        assert (await server.caption(files.png())).results[0].text == SCENE
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "kernel" not in (caught.value.details() or "")


@in_a_loop
async def test_no_more_than_sixteen_pictures_are_encoded_at_once(models: Path) -> None:
    async with captioning(models, workers=1) as server:
        reply = await server.caption(*[files.png()] * 40)
    assert [result.text for result in reply.results] == [SCENE] * 40
    assert max(server.captioner.encoded) <= 16


@in_a_loop
async def test_an_answer_does_not_depend_on_who_is_beside_it(models: Path) -> None:
    pictures = [
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (40, 60, 3), dtype=np.uint8))
        for number in range(6)
    ] + [files.with_red_square(90, 60, corner="lower left")]
    data = [files.png(picture) for picture in pictures]
    texts = [f"echo{number} echo{number + 1}" for number in range(6)]
    options: dict[str, Any] = {"decoding": Decoding(beam_size=3, n_best=2), "attention": Attention()}
    async with captioning(models) as server:
        alone = [(await server.caption(one, **options)).results[0] for one in data]
        said = [(await server.served.translate(text)).results[0].text for text in texts]
        together = await asyncio.gather(
            *(server.caption(one, **options) for one in data * 3),
            server.caption(*reversed(data), **options),
            *(server.served.translate(text) for text in texts * 3),
        )
    for index in range(3 * len(data)):
        reply = together[index]
        assert isinstance(reply, captioning_pb2.CaptionResponse)
        assert reply.results[0].hypotheses == alone[index % len(data)].hypotheses
    many = together[3 * len(data)]
    assert isinstance(many, captioning_pb2.CaptionResponse)
    assert [result.hypotheses for result in many.results] == [result.hypotheses for result in reversed(alone)]
    assert [reply.results[0].text for reply in together[3 * len(data) + 1 :]] == said * 3


@in_a_loop
async def test_pictures_that_together_are_too_many_bytes_are_turned_away_and_can_come_again(models: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (500, 600, 3), dtype=np.uint8))
    data = files.png(noise)
    async with captioning(models, limits=SMALL, max_bytes_held=4 * SMALL.max_message_bytes) as server:
        outcomes = await asyncio.gather(*(server.caption(data) for _ in range(24)), return_exceptions=True)
        assert (await server.caption(data)).results[0].text
    refused = [outcome for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    assert all(outcome.code() == grpc.StatusCode.RESOURCE_EXHAUSTED for outcome in refused)
    assert len(refused) < len(outcomes)
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException) and outcome not in refused]


def test_the_fake_sees_the_colours_of_the_scene() -> None:
    assert colours_of(np.asarray(files.scene().resize((SIDE, SIDE)))) == list(files.QUARTERS)

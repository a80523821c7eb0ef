"""Self-attention of the encoder over gRPC: how the cells of a picture looked at each other, for those who ask."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from PIL import Image
from tests.server import picture_files as files
from tests.server.caption_fakes import CELLS, COLUMNS, ROWS, SIDE, FakeCaptioner, looks_within, write_caption_bundle
from tests.server.caption_serving import captioning, in_a_loop
from tests.server.serving import NULL_MODELS, detail_of

from regard.contract.bundle import load_bundle
from regard.contract.image_input import ImageInput
from regard.server.pictures.pixels import Picture
from regard.server.request import DecodeResult, FinishReason, Hypothesis, Timing, Weights
from regard.server.services.alignment import Encoding
from regard.server.services.caption_replies import write_caption
from regard.server.settings import Limits
from regard.server.text.tokenization import TextPipeline
from regard.v1 import attention_pb2, captioning_pb2

Attention = attention_pb2.AttentionOptions
FLOAT32 = attention_pb2.ATTENTION_ENCODING_FLOAT32


def looking(**options: Any) -> dict[str, Any]:
    """How to serve a captioner that has such attention."""
    return {"captioner": FakeCaptioner(looks_within=True), **options}


@in_a_loop
async def test_what_the_encoder_looked_at_comes_as_it_is_asked_for_and_not_otherwise(tmp_path: Path) -> None:
    write_caption_bundle(tmp_path, looks_within=True)
    red = Image.new("RGB", (SIDE, SIDE), files.BLUE)
    red.paste((255, 0, 0), (0, 0, SIDE // 2, SIDE // 2))
    pictures = files.png(red), files.png(Image.new("RGB", (SIDE, SIDE), files.GREEN))
    async with captioning(tmp_path, **looking()) as server:
        asked = await server.caption(*pictures, encoder_attention=attention_pb2.ATTENTION_ENCODING_FLOAT16)
        looked = list(server.captioner.looked)
        plain = await server.caption(*pictures, attention=Attention())
        others = server.captioner.looked[len(looked) :]
    assert any(looked)
    assert not any(others)
    assert not any(result.HasField("encoder_attention") for result in plain.results)
    for result, expected in zip(asked.results, (red, Image.new("RGB", (SIDE, SIDE), files.GREEN)), strict=True):
        found = result.encoder_attention
        assert list(found.axes) == ["layer", "head", "query_row", "query_column", "row", "column"]
        assert list(found.shape) == [1, 2, ROWS, COLUMNS, ROWS, COLUMNS]
        assert (list(found.layers), list(found.heads)) == ([0], [0, 1])
        weights = np.frombuffer(found.values, "<f2").reshape(1, 2, CELLS, CELLS)
        np.testing.assert_allclose(weights, looks_within(np.array(expected)[None])[0], atol=1e-3)
        assert not result.hypotheses[0].HasField("attention")


@in_a_loop
async def test_a_model_without_self_attention_has_none_to_give(tmp_path: Path) -> None:
    write_caption_bundle(tmp_path)
    async with captioning(tmp_path) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(files.png(), encoder_attention=FLOAT32)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert detail_of(caught.value, error_details_pb2.ErrorInfo).reason == "NO_ENCODER_ATTENTION"


@in_a_loop
async def test_without_pictures_and_without_an_encoding_it_may_be_asked_for(tmp_path: Path) -> None:
    write_caption_bundle(tmp_path, looks_within=True)
    async with captioning(tmp_path, **looking()) as server:
        assert not (await server.caption(encoder_attention=FLOAT32)).results
        unspecified = attention_pb2.ATTENTION_ENCODING_UNSPECIFIED
        (result,) = (await server.caption(files.png(), encoder_attention=unspecified)).results
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(files.png(), encoder_attention=9)
    assert result.encoder_attention.encoding == FLOAT32
    assert len(result.encoder_attention.values) == 4 * 2 * CELLS**2
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "encoder_attention: unknown AttentionEncoding 9" in (caught.value.details() or "")


@in_a_loop
async def test_who_asks_changes_nothing_for_the_others(tmp_path: Path) -> None:
    write_caption_bundle(tmp_path, looks_within=True)
    noise = np.random.default_rng(3).integers(0, 256, (6, SIDE, SIDE, 3), dtype=np.uint8)
    data = [files.png(Image.fromarray(pixels)) for pixels in noise]
    async with captioning(tmp_path, **looking(workers=1)) as server:
        alone = [(await server.caption(one, attention=Attention())).results[0] for one in data]
        together = await asyncio.gather(
            *(server.caption(one, attention=Attention()) for one in data),
            *(server.caption(one, attention=Attention(), encoder_attention=FLOAT32) for one in data),
        )
    results = [reply.results[0] for reply in together]
    assert [result.hypotheses for result in results] == [result.hypotheses for result in alone] * 2
    assert not any(result.HasField("encoder_attention") for result in results[: len(data)])
    for result, pixels in zip(results[len(data) :], noise, strict=True):
        weights = np.frombuffer(result.encoder_attention.values, "<f4").reshape(1, 2, CELLS, CELLS)
        np.testing.assert_array_equal(weights, looks_within(pixels[None])[0])


@in_a_loop
async def test_more_of_it_than_a_reply_holds_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write_caption_bundle(tmp_path, looks_within=True)
    pictures = [files.png()] * 16
    async with captioning(tmp_path, **looking(limits=Limits(max_message_bytes=200_000))) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.caption(*pictures, encoder_attention=FLOAT32)
        fewer = await server.caption(*pictures, encoder_attention=attention_pb2.ATTENTION_ENCODING_UINT8)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "FLOAT16 or UINT8" in (caught.value.details() or "")
    assert [len(result.encoder_attention.values) for result in fewer.results] == [2 * CELLS**2] * len(pictures)


def written(weights: Weights | None) -> captioning_pb2.CaptionResult:
    """The answer to a picture of 2 x 3 cells, of which nothing is said."""
    nothing = Hypothesis(
        tokens=np.empty(0, dtype=np.int64),
        log_probabilities=np.empty(0, dtype=np.float32),
        end_log_probability=-1.0,
        score=-1.0,
        finish_reason=FinishReason.END,
        alignment=np.empty((0, 6), dtype=np.float32),
        attention=None,
    )
    return write_caption(
        Picture(pixels=np.zeros((2, 3, 3), dtype=np.uint8), format="PNG", width=3, height=2, orientation=1),
        DecodeResult(hypotheses=(nothing,), timing=Timing(0.0, 0.0, 0.0, 1, 1.0), encoder_attention=weights),
        pipeline=TextPipeline(load_bundle(NULL_MODELS / "null" / "1")),
        image=ImageInput(height=2, width=3, rows=2, columns=3, resampling="bilinear", ground=(0, 0, 0)),
        attention=None,
        encoder_attention=Encoding.FLOAT32,
    )


def test_rows_come_before_columns_of_maps_that_are_wider_than_high() -> None:
    weights = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    found = written(weights).encoder_attention
    assert list(found.shape) == [1, 1, 2, 3, 2, 3]
    assert found.values == weights.tobytes()


def test_what_was_not_kept_or_is_no_number_is_never_an_answer() -> None:
    with pytest.raises(ValueError, match="not kept"):
        written(None)
    with pytest.raises(ValueError, match="not finite"):
        written(np.full((1, 1, 6, 6), np.nan, dtype=np.float32))

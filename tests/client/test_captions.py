"""What the clients send for pictures, and what they make of the answers."""

import asyncio
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.client.fake_server import COLUMNS, ROWS, FakeServer, answer_pictures, caption_of

from regard.client import AsyncClient, AttentionQuery, Caption, Client, DeadlinePassed, InvalidRequest, UnreadableReply
from regard.client.batching.batches import MAX_CALL_BYTES, MAX_CALL_IMAGES
from regard.client.replies import caption
from regard.client.requests import caption_request
from regard.v1 import attention_pb2, captioning_pb2, decoding_pb2


def cells(*places: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.eye(ROWS * COLUMNS, dtype=np.float32)[list(places)].reshape(-1, ROWS, COLUMNS)


def test_bytes_and_paths_are_captioned_in_order(fake_server: FakeServer, tmp_path: Path) -> None:
    file = tmp_path / "picture.jpg"
    file.write_bytes(b"two dogs")
    with Client(fake_server.address) as client:
        answers = client.caption([b"a dog", file, str(file), bytearray(b"a cat")])
    assert [answer.text for answer in answers] == ["a dog", "two dogs", "two dogs", "a cat"]
    assert answers[0].model.name == "toy"


def test_a_caption_says_how_the_picture_was_read_and_where_the_time_went(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        (answer,) = client.caption([b"a dog"])
    assert answer.image
    assert (answer.image.format, answer.image.width, answer.image.height) == ("PNG", 60, 40)
    assert (answer.image.rows, answer.image.columns, answer.image.orientation) == (ROWS, COLUMNS, 1)
    assert answer.timing
    assert answer.timing.steps == 2
    assert answer.words == ("a", "dog")


def test_without_attention_there_are_no_maps(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        (answer,) = client.caption([b"a dog"])
    assert answer.maps is None
    assert not fake_server.caption_requests[0].HasField("attention")


@pytest.mark.parametrize(
    "query",
    [
        AttentionQuery(),
        AttentionQuery(granularity="subword"),
        AttentionQuery(encoding="uint8"),
        AttentionQuery(encoding="float16"),
        AttentionQuery(reduction="none"),
        AttentionQuery(top_k=2),
        AttentionQuery(top_k=2, reduction="none"),
    ],
)
def test_maps_are_word_row_column_whatever_was_asked_for(fake_server: FakeServer, query: AttentionQuery) -> None:
    with Client(fake_server.address) as client:
        (answer,) = client.caption([b"a brown dog runs"], attention=query)
    maps = answer.maps
    assert maps is not None
    assert maps.dtype == np.float32
    np.testing.assert_allclose(maps, cells(0, 1, 2, 3), atol=1 / 255)


def test_a_word_of_several_subwords_has_their_mean() -> None:
    request = caption_request([b"a dog"], attention="subword")
    result = caption_of(b"a dog", request.attention)
    del result.hypotheses[0].words[1]
    result.hypotheses[0].words[0].token_count = 2
    answer = caption(captioning_pb2.CaptionResponse(results=[result]), "subword")
    assert answer.maps is not None
    np.testing.assert_allclose(answer.maps, cells(0, 1).mean(axis=0, keepdims=True))


def test_a_caption_without_words_has_no_maps_but_their_shape(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        (answer,) = client.caption([b""], attention="word")
    assert answer.maps is not None
    assert (answer.words, answer.maps.shape) == ((), (0, ROWS, COLUMNS))


def test_every_option_reaches_the_server(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        client.caption(
            [b"x"],
            model="toy",
            version="2",
            beam_size=5,
            n_best=2,
            length_penalty=0.5,
            min_length=1,
            max_length=9,
            no_repeat_ngram=3,
            priority=3,
        )
    (request,) = fake_server.caption_requests
    assert (request.model, request.version, request.priority) == ("toy", "2", 3)
    assert request.decoding == decoding_pb2.DecodingOptions(
        beam_size=5, n_best=2, length_penalty=0.5, min_length=1, max_length=9, no_repeat_ngram=3
    )


def test_a_target_language_is_no_option_of_captions(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client, pytest.raises(TypeError, match="no option 'target_language'"):
        client.caption([], target_language="es")  # type: ignore[call-arg]  # the point of the test


@pytest.mark.parametrize("one", [b"x", "photo.jpg", Path("photo.jpg")])
def test_a_picture_in_place_of_a_list_is_refused(fake_server: FakeServer, one: bytes) -> None:
    with Client(fake_server.address) as client, pytest.raises(TypeError, match="for one picture write"):
        client.caption(one)  # type: ignore[arg-type]  # the point of the test


def test_a_picture_that_fails_among_others_fails_alone_and_keeps_its_place(fake_server: FakeServer) -> None:
    images = [b"a dog"] * MAX_CALL_IMAGES + [b"!bad"]
    with Client(fake_server.address) as client:
        *good, bad = client.caption(images)
    assert {each.text for each in good} == {"a dog"}
    assert bad.error is not None
    assert (bad.text, bad.words, bad.maps, bad.image, bad.timing) == ("", (), None, None, None)
    assert (bad.error.message, bad.error.field) == ("is no picture", f"images[{MAX_CALL_IMAGES}]")


def test_a_single_picture_fails_as_a_call(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client, pytest.raises(InvalidRequest, match=r"images\[0\]: is no picture"):
        client.caption([b"!bad"])


def test_calls_are_bounded_in_pictures_and_bytes(fake_server: FakeServer) -> None:
    large = b"x" * (MAX_CALL_BYTES // 4)
    with Client(fake_server.address) as client:
        client.caption([b"x"] * 40)
        counts = [len(request.images) for request in fake_server.caption_requests]
        fake_server.caption_requests.clear()
        answers = client.caption([large] * 5)
    assert counts == [16, 16, 8]
    # The fake server takes messages of 4 MiB, less than the client would send: what is refused is sent in halves.
    assert [len(request.images) for request in fake_server.caption_requests] == [1] * 5
    assert all(answer.error is None for answer in answers)


def test_a_missing_file_is_an_error_of_the_system(fake_server: FakeServer, tmp_path: Path) -> None:
    with Client(fake_server.address) as client, pytest.raises(FileNotFoundError):
        client.caption([tmp_path / "none.jpg", b"a dog"])


def test_a_timeout_holds_for_all_calls_together(fake_server: FakeServer) -> None:
    def slow(request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext) -> captioning_pb2.CaptionResponse:
        if len(fake_server.caption_requests) > 1:
            while context.is_active():
                time.sleep(0.02)
        return answer_pictures(request, context)

    fake_server.caption = slow
    with Client(fake_server.address) as client, pytest.raises(DeadlinePassed, match="within 1 s"):
        client.caption([b"x"] * 20, timeout=1)


def test_both_clients_give_the_same_answers(fake_server: FakeServer, tmp_path: Path) -> None:
    file = tmp_path / "picture.jpg"
    file.write_bytes(b"two dogs")
    images = [b"a dog", b"!bad", file]

    async def ask() -> tuple[Caption, ...]:
        async with AsyncClient(fake_server.address) as client:
            with pytest.raises(InvalidRequest, match="is no picture"):
                await client.caption([b"!bad"])
            return await client.caption(images, attention="word", n_best=2)

    with Client(fake_server.address) as client:
        expected = client.caption(images, attention="word", n_best=2)
    answers = asyncio.run(ask())
    assert [(each.text, each.error, each.words) for each in answers] == [
        (each.text, each.error, each.words) for each in expected
    ]
    assert answers[2].hypotheses[1].text == "two dogs 2"
    maps = answers[2].maps
    assert maps is not None
    np.testing.assert_array_equal(maps, cells(0, 1))


def test_what_the_encoder_looked_at_has_the_places_of_cells_on_both_sides() -> None:
    for nothing in (False, None):
        assert not caption_request([b"x"], encoder_attention=nothing).HasField("encoder_attention")
    assert caption_request([b"x"], encoder_attention=True).encoder_attention == attention_pb2.ATTENTION_ENCODING_FLOAT32
    request = caption_request([b"a dog"], encoder_attention="uint8")
    sent = np.arange(4 * (ROWS * COLUMNS) ** 2, dtype=np.uint8).reshape(2, 2, ROWS, COLUMNS, ROWS, COLUMNS)
    result = caption_of(b"a dog", None)
    result.encoder_attention.CopyFrom(
        attention_pb2.Attention(
            axes=["layer", "head", "query_row", "query_column", "row", "column"],
            shape=sent.shape,
            encoding=request.encoder_attention,
            values=sent.tobytes(),
        )
    )
    reply = captioning_pb2.CaptionResponse(results=[result])
    looked = caption(reply, "word").encoder_attention
    assert looked is not None
    assert looked.dtype == np.float32
    np.testing.assert_allclose(looked, sent / 255, rtol=1e-6)
    reply.results[0].image.rows, reply.results[0].image.columns = COLUMNS, ROWS
    with pytest.raises(UnreadableReply, match="within 3 x 2 cells"):
        caption(reply, "word")


def test_an_unknown_encoding_of_what_the_encoder_looked_at_is_refused() -> None:
    with pytest.raises(ValueError, match="encoder_attention is 'float64'"):
        caption_request([b"x"], encoder_attention="float64")  # type: ignore[typeddict-item]  # the point of the test


def test_a_map_that_is_no_map_of_the_picture_is_refused() -> None:
    request = caption_request([b"a dog"], attention="word")
    reply = captioning_pb2.CaptionResponse(results=[caption_of(b"a dog", request.attention)])
    caption(reply, "word")
    reply.results[0].image.rows, reply.results[0].image.columns = COLUMNS, ROWS
    with pytest.raises(UnreadableReply, match="source positions"):
        caption(reply, "word")


def test_a_map_with_swapped_axes_is_refused() -> None:
    request = caption_request([b"a dog"], attention="word")
    reply = captioning_pb2.CaptionResponse(results=[caption_of(b"a dog", request.attention)])
    reply.results[0].hypotheses[0].attention.axes[:] = ["target", "column", "row"]
    with pytest.raises(UnreadableReply, match="with axes"):
        caption(reply, "word")


def test_indices_that_could_not_count_the_cells_are_refused() -> None:
    request = caption_request([b"a dog"], attention=AttentionQuery(top_k=1))
    reply = captioning_pb2.CaptionResponse(results=[caption_of(b"a dog", request.attention)])
    reply.results[0].image.rows = 2**30
    with pytest.raises(UnreadableReply, match="cannot count"):
        caption(reply, "word")

"""What the client for threads sends, and what it makes of the answers."""

import socket
import threading
import time

import grpc
import numpy as np
import pytest
from tests.client.fake_server import FakeServer

from regard.client import (
    AttentionQuery,
    CannotConnect,
    Client,
    DeadlinePassed,
    MessageTooLarge,
    ModelNotFound,
    NotServing,
    RegardCallError,
    Span,
)
from regard.v1 import decoding_pb2, translation_pb2


def test_translations_come_in_the_order_of_the_texts(fake_server: FakeServer) -> None:
    texts = [f"text number {index}" for index in range(20)]
    with Client(fake_server.address) as client:
        answers = client.translate(texts)
    assert [answer.text for answer in answers] == [text.upper() for text in texts]


def test_blank_text_is_answered_by_a_blank_one(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        answers = client.translate(["", "one"])
    assert (answers[0].text, answers[0].segments, answers[0].error) == ("", (), None)
    assert answers[1].text == "ONE"


def test_no_texts_give_no_translations(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        assert client.translate([]) == ()


def test_options_that_are_not_given_are_not_sent(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        client.translate(["one"])
    assert fake_server.requests == [
        translation_pb2.TranslateRequest(texts=["one"], decoding=decoding_pb2.DecodingOptions())
    ]


def test_every_option_reaches_the_server(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        client.translate(
            ["one"],
            model="toy",
            version="2",
            target_language="es",
            beam_size=5,
            n_best=2,
            length_penalty=0.5,
            min_length=1,
            max_length=9,
            priority=3,
            attention=AttentionQuery(granularity="subword", encoding="uint8", top_k=2),
        )
    (request,) = fake_server.requests
    assert (request.model, request.version, request.target_language, request.priority) == ("toy", "2", "es", 3)
    assert request.decoding == decoding_pb2.DecodingOptions(
        beam_size=5, n_best=2, length_penalty=0.5, min_length=1, max_length=9
    )
    assert (request.attention.granularity, request.attention.encoding, request.attention.top_k) == (1, 3, 2)


def test_words_and_alignments_hold_the_text_that_they_stand_for(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        (answer,) = client.translate(["señor añejo"])
    (segment,) = answer.segments
    assert [word.text for word in segment.source_words] == ["señor", "añejo", ""]
    assert segment.source_words[1].span == Span(7, 13)
    alignments = segment.hypotheses[0].alignments
    assert [(each.source_text, each.target_text) for each in alignments] == [("señor", "SEÑOR"), ("añejo", "AÑEJO")]


@pytest.mark.parametrize("encoding", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("granularity", ["word", "subword"])
def test_attention_arrives_as_a_matrix_whatever_its_encoding(
    fake_server: FakeServer, encoding: str, granularity: str
) -> None:
    query = AttentionQuery(granularity=granularity, encoding=encoding)  # type: ignore[arg-type]
    with Client(fake_server.address) as client:
        (answer,) = client.translate(["one two three"], attention=query)
    attention = answer.segments[0].hypotheses[0].attention
    assert attention is not None
    assert (attention.axes, attention.granularity) == (("target", "source"), granularity)
    assert attention.weights.dtype == np.float32
    expected = np.hstack([np.eye(3) * 0.75, np.full((3, 1), 0.25)])
    np.testing.assert_allclose(attention.weights, expected, atol=1 / 255)


def test_weights_that_top_k_dropped_are_zero(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        (answer,) = client.translate(["one two three"], attention=AttentionQuery(top_k=1))
    attention = answer.segments[0].hypotheses[0].attention
    assert attention is not None
    np.testing.assert_allclose(attention.weights, np.eye(3, 4) * 0.75)


def test_attention_of_every_head_keeps_its_axes(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        (answer,) = client.translate(["one two"], attention=AttentionQuery(reduction="none"))
    attention = answer.segments[0].hypotheses[0].attention
    assert attention is not None
    assert attention.axes == ("layer", "head", "target", "source")
    assert attention.weights.shape == (2, 1, 2, 3)


def test_a_text_that_fails_among_others_fails_alone(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        good, bad = client.translate(["one", "!two"])
    assert (good.text, good.error) == ("ONE", None)
    assert bad.error is not None
    assert (bad.text, bad.error.message, bad.error.field) == ("", "bad !two", "texts[1]")


def test_scores_come_in_the_order_of_the_pairs(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        scores = client.score([("one", "uno"), ("two three", "dos tres")], attention="word")
    assert [score.segment.text for score in scores if score.segment] == ["one", "two three"]
    assert scores[0].model.name == "toy"


def test_models_are_listed(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        captioner, model = client.models()
        details = client.model()
    assert (model.name, model.version, model.target_languages, model.is_default) == ("toy", "2", ("es",), True)
    assert (model.task, captioner.task, captioner.source_languages) == ("translation", "captioning", ())
    assert details.model == model
    assert details.manifest["name"] == "toy"


def test_unknown_model_is_named(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client, pytest.raises(ModelNotFound, match="no model 'other'"):
        client.model("other")


def test_a_client_serves_many_threads(fake_server: FakeServer) -> None:
    answers: dict[int, str] = {}
    with Client(fake_server.address) as client:

        def call(index: int) -> None:
            answers[index] = client.translate([f"text {index}"])[0].text

        threads = [threading.Thread(target=call, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {index: f"TEXT {index}" for index in range(8)}


def test_waiting_ends_when_the_server_serves(fake_server: FakeServer) -> None:
    fake_server.health = b"\x08\x02"
    timer = threading.Timer(0.2, lambda: setattr(fake_server, "health", b"\x08\x01"))
    timer.start()
    with Client(fake_server.address) as client:
        client.wait_ready(timeout=120)
    timer.join()


def reason_of(address: str, expected: type[RegardCallError]) -> RegardCallError:
    """Why waiting for a server ended; where a machine that is held up left no time for the last question, again."""
    reason: RegardCallError | None = None
    for patience in (0.2, 2.0, 20.0):
        with Client(address) as client, pytest.raises(RegardCallError) as caught:
            client.wait_ready(timeout=patience)
        reason = caught.value
        if not isinstance(reason, DeadlinePassed):
            break
    assert isinstance(reason, expected)
    return reason


def test_waiting_for_a_server_that_does_not_serve_ends(fake_server: FakeServer) -> None:
    fake_server.health = b"\x08\x02"
    assert "is not ready" in str(reason_of(fake_server.address, NotServing))


def test_waiting_for_nobody_ends_in_time() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        start = time.monotonic()
        assert "no server at" in str(reason_of(address, CannotConnect))
    assert time.monotonic() - start < 60


def test_a_busy_server_is_tried_again(fake_server: FakeServer) -> None:
    real = fake_server.translate

    def busy_once(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        if len(fake_server.requests) == 1:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "10"),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        return real(request, context)

    fake_server.translate = busy_once
    with Client(fake_server.address) as client:
        assert client.translate(["one"])[0].text == "ONE"
    assert len(fake_server.requests) == 2


def test_replies_larger_than_the_default_of_grpc_arrive(fake_server: FakeServer) -> None:
    def long(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        return translation_pb2.TranslateResponse(results=[translation_pb2.TranslationResult(text="x" * 5_000_000)])

    fake_server.translate = long
    with Client(fake_server.address) as client:
        (answer,) = client.translate(["one"])
    assert len(answer.text) == 5_000_000


def test_a_request_that_is_too_large_is_no_busy_server(fake_server: FakeServer) -> None:
    with (
        Client(fake_server.address) as client,
        pytest.raises(MessageTooLarge, match="fewer texts or pictures at a time"),
    ):
        client.translate(["x" * 5_000_000])

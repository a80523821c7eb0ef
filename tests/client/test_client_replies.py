"""A reply that contradicts itself is an error and no guess."""

from collections.abc import Callable

import pytest
from tests.client.fake_server import answer

from regard.client.errors import UnreadableReply
from regard.client.replies import translations
from regard.client.requests import translate_request
from regard.v1 import attention_pb2, decoding_pb2, translation_pb2


class NoContext:
    """Stands where the server has the context of a call, which the fixed answers do not use."""


def reply_to(request: translation_pb2.TranslateRequest) -> translation_pb2.TranslateResponse:
    return answer(request, NoContext())  # type: ignore[arg-type]  # see NoContext


Spoil = Callable[[translation_pb2.TranslateResponse], object]


def hypothesis(reply: translation_pb2.TranslateResponse) -> decoding_pb2.Hypothesis:
    return reply.results[0].segments[0].hypotheses[0]


def set_values(reply: translation_pb2.TranslateResponse) -> None:
    hypothesis(reply).attention.values = b"123"


def set_encoding(reply: translation_pb2.TranslateResponse) -> None:
    hypothesis(reply).attention.encoding = 99  # type: ignore[assignment]  # from a newer server


def set_shape(reply: translation_pb2.TranslateResponse) -> None:
    hypothesis(reply).attention.shape[:] = [3, 2]


def set_negative_shape(reply: translation_pb2.TranslateResponse) -> None:
    hypothesis(reply).attention.shape[:] = [-2, -3]


def set_axes(reply: translation_pb2.TranslateResponse) -> None:
    hypothesis(reply).attention.axes[:] = ["source", "target"]


def set_alignment(reply: translation_pb2.TranslateResponse) -> None:
    hypothesis(reply).alignments[0].source_word = 7


def set_span(reply: translation_pb2.TranslateResponse) -> None:
    reply.results[0].segments[0].source_words[0].span.CopyFrom(attention_pb2.Span(start=2, end=700))


def drop_result(reply: translation_pb2.TranslateResponse) -> None:
    del reply.results[:]


@pytest.mark.parametrize(
    "spoil",
    [
        set_values,
        set_encoding,
        set_shape,
        set_negative_shape,
        set_axes,
        set_alignment,
        set_span,
        drop_result,
    ],
)
def test_contradictions_are_refused(spoil: Spoil) -> None:
    request = translate_request(["one two"], attention="word")
    reply = reply_to(request)
    translations(request, reply)
    spoil(reply)
    with pytest.raises(UnreadableReply, match="the server sent"):
        translations(request, reply)


def test_a_top_k_column_that_does_not_exist_is_refused() -> None:
    request = translate_request(["one two"], attention="word")
    request.attention.top_k = 1
    reply = reply_to(request)
    hypothesis(reply).attention.indices = b"\x09\x00\x00\x00"
    with pytest.raises(UnreadableReply, match="column 9 of 3"):
        translations(request, reply)


def test_a_subword_that_ends_inside_a_character_is_shown_as_far_as_it_can_be() -> None:
    request = translate_request(["ñu"])
    reply = reply_to(request)
    reply.results[0].segments[0].source_tokens[0].span.end = 1
    (translation,) = translations(request, reply)
    assert translation.segments[0].source_tokens[0].text == "\ufffd"

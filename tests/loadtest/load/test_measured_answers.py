"""A measured reply is reduced to what the figures need, and is a good one only if it is whole."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from regard.loadtest.load.answers import Answer, read_answer
from regard.loadtest.load.corpus import CAPTION, TRANSLATE
from regard.v1.attention_pb2 import (
    ATTENTION_ENCODING_FLOAT16,
    ATTENTION_ENCODING_FLOAT32,
    Attention,
    Token,
    Word,
)
from regard.v1.captioning_pb2 import CaptionResponse, CaptionResult, Image
from regard.v1.decoding_pb2 import Hypothesis, ItemError, Timing
from regard.v1.translation_pb2 import Segment, TranslateResponse, TranslationResult


def translated(*texts: str, seconds: float = 0.0, attention: Attention | None = None) -> TranslateResponse:
    timing = Timing(queue_seconds=seconds, decode_seconds=2 * seconds, steps=3, mean_batch_rows=4)
    hypothesis = Hypothesis(text="x", tokens=[Token(id=5), Token(id=6)], attention=attention)
    segment = Segment(hypotheses=[hypothesis], timing=timing)
    return TranslateResponse(results=[TranslationResult(text=text, segments=[segment]) for text in texts])


def looked(*rows: float, kind: str = "<f2", columns: int = 4) -> Attention:
    """Two words or tokens, one map or row each, whose sums are given."""
    weights = np.array([[total / columns] * columns for total in rows], dtype=kind).reshape(len(rows), 2, -1)
    encoding = ATTENTION_ENCODING_FLOAT16 if kind == "<f2" else ATTENTION_ENCODING_FLOAT32
    return Attention(shape=weights.shape, encoding=encoding, values=weights.tobytes())


def captioned(text: str = "a dog", words: int = 2, attention: Attention | None = None) -> CaptionResponse:
    hypothesis = Hypothesis(
        text=text, tokens=[Token(id=5)] * 3, words=[Word(token_count=1)] * words, attention=attention
    )
    timing = Timing(queue_seconds=0.5, encode_seconds=0.25, mean_batch_rows=4)
    image = Image(rows=2, columns=2)
    return CaptionResponse(results=[CaptionResult(text=text, hypotheses=[hypothesis], image=image, timing=timing)])


def read(reply: TranslateResponse | CaptionResponse, *, attention: bool = False) -> Answer:
    method = TRANSLATE if isinstance(reply, TranslateResponse) else CAPTION
    answer = read_answer(reply.SerializeToString(), method=method, attention=attention)
    assert answer is not None
    return answer


def test_the_digest_is_of_the_texts_and_not_of_the_time_they_took() -> None:
    digests = [read(translated("a", "b", seconds=s)).digest for s in (0.1, 0.2)]
    assert digests[0] == digests[1] != read(translated("ab")).digest


def test_tokens_are_counted_over_all_texts_and_times_are_those_of_the_longest_segment() -> None:
    answer = read(translated("a", "b", seconds=0.5))
    assert (answer.target_tokens, answer.queue_seconds, answer.decode_seconds) == (4, 0.5, 1.0)
    assert (answer.steps, answer.batch_rows, answer.failed_texts, answer.fault) == (3, 4, 0, "")


def test_a_caption_has_the_digest_of_its_text_its_tokens_and_its_times() -> None:
    answer = read(captioned())
    assert answer.digest == read(translated("a dog")).digest
    assert (answer.target_tokens, answer.queue_seconds, answer.encode_seconds) == (3, 0.5, 0.25)
    assert (answer.failed_texts, answer.fault) == (0, "")


def test_a_text_or_picture_that_failed_alone_is_counted_and_is_no_fault_of_the_answer() -> None:
    texts, pictures = translated("a"), captioned()
    texts.results.append(TranslationResult(error=ItemError(code=3)))
    pictures.results.append(CaptionResult(error=ItemError(code=3)))
    assert [(read(reply).failed_texts, read(reply).fault) for reply in (texts, pictures)] == [(1, ""), (1, "")]


@pytest.mark.parametrize("method", [TRANSLATE, CAPTION])
def test_bytes_that_are_no_reply_are_no_answer(method: str) -> None:
    assert read_answer(b"\xff\xff\xff", method=method, attention=False) is None


@pytest.mark.parametrize("make", [TranslateResponse, CaptionResponse])
def test_a_reply_without_results_is_at_fault(make: Callable[[], TranslateResponse | CaptionResponse]) -> None:
    assert read(make()).fault == "no results"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (captioned(text=" "), "a caption is empty"),
        (captioned(words=0), "has no words"),
        (captioned(), "is not there"),
        (captioned(words=3, attention=looked(1, 1)), r"maps of 3 words and 2 x 2 cells have the shape \(2, 2, 2\)"),
        (captioned(attention=looked(1, 0.9)), r"sums to 0\.9"),
        (captioned(attention=looked(1, float("nan"))), "sums to nan"),
        (captioned(attention=Attention(shape=[2, 2, 2], values=b"\0")), "not as many weights"),
        (translated("a"), "is not there"),
        (translated("a", attention=looked(0.5, 1)), r"sums to 0\.5"),
    ],
)
def test_what_an_answer_lacks_is_told(reply: TranslateResponse | CaptionResponse, said: str) -> None:
    assert re.search(said, read(reply, attention=True).fault)


@pytest.mark.parametrize("kind", ["<f2", "<f4"])
def test_attention_that_sums_to_one_is_no_fault(kind: str) -> None:
    assert read(captioned(attention=looked(1, 0.995, kind=kind)), attention=True).fault == ""
    assert read(translated("a", attention=looked(1, 1, kind=kind)), attention=True).fault == ""


def test_attention_that_nobody_asked_for_is_not_looked_at() -> None:
    assert read(captioned(attention=looked(3, 3))).fault == ""

"""What a reply says of a result."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.bundles import NULL

from regard.contract.bundle import LoadedBundle, load_bundle
from regard.server.errors import DeadlinePassed, InvalidRequest
from regard.server.request import DecodeResult, FinishReason, Hypothesis, Timing, Weights
from regard.server.services.alignment import Encoding
from regard.server.services.attention_options import AttentionOptions
from regard.server.services.hypothesis_messages import write_item_error, write_model
from regard.server.services.translation_replies import write_score, write_translation
from regard.server.text.tokenization import SourceSegment, TextPipeline
from regard.server.text.word_grouping import Word
from regard.v1 import attention_pb2, decoding_pb2, translation_pb2

TIMING = Timing(queue_seconds=0.1, encode_seconds=0.2, decode_seconds=0.3, steps=4, mean_batch_rows=2.5)
ALIGNMENTS = AttentionOptions(
    by_word=False, keep_heads=False, layers=None, heads=None, encoding=Encoding.FLOAT32, top_k=None
)


@pytest.fixture(scope="module")
def bundle() -> LoadedBundle:
    bundle = load_bundle(NULL)
    return replace(bundle, ports=replace(bundle.ports, layers=2, heads=3))


@pytest.fixture(scope="module")
def pipeline(bundle: LoadedBundle) -> TextPipeline:
    return TextPipeline(bundle)


def attend(target: int, source: int) -> Weights:
    """Layers and heads that look at different places; rows sum to 1."""
    raw = np.random.default_rng(target * 100 + source).random((2, 3, target, source)) + 0.01
    return (raw / raw.sum(axis=-1, keepdims=True)).astype(np.float32)


def result(segment: SourceSegment, *tokens: list[int], **changes: Any) -> DecodeResult:
    hypotheses: list[Hypothesis] = []
    for rank, ids in enumerate(tokens):
        attention = attend(len(ids), len(segment.ids))
        made = Hypothesis(
            tokens=np.array(ids, dtype=np.int64),
            log_probabilities=-0.5 * np.arange(1, len(ids) + 1, dtype=np.float32),
            end_log_probability=-0.25,
            score=-1.0 - rank,
            finish_reason=FinishReason.END,
            alignment=attention[0, 0],
            attention=attention,
        )
        hypotheses.append(replace(made, **changes))
    return DecodeResult(hypotheses=tuple(hypotheses), timing=TIMING)


def write(
    bundle: LoadedBundle,
    pipeline: TextPipeline,
    text: str,
    *tokens: list[int],
    attention: AttentionOptions | None = None,
    **changes: Any,
) -> translation_pb2.TranslationResult:
    """The reply to a text all of whose segments are answered by the same hypotheses."""
    segments = pipeline.prepare(text)
    results = [result(segment, *tokens, **changes) for segment in segments if segment.known]
    return write_translation(text, segments, results, pipeline=pipeline, bundle=bundle, attention=attention)


def read(attention: attention_pb2.Attention) -> Weights:
    dtype = {1: "<f4", 2: "<f2", 3: "u1"}[attention.encoding]
    return np.frombuffer(attention.values, dtype=dtype).reshape(attention.shape)


def test_the_model_that_answered_is_named(bundle: LoadedBundle) -> None:
    model = write_model(bundle)
    assert (model.name, model.version, model.digest, model.profile) == ("null", "1", bundle.digest, "cpu")


def test_segments_come_with_spans_tokens_and_words_of_the_text(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    text = " echo é. Echo!"
    reply = write(bundle, pipeline, text, [4, 4])
    raw = text.encode()

    assert [raw[s.source_span.start : s.source_span.end].decode() for s in reply.segments] == ["echo é.", "Echo!"]
    for segment in reply.segments:
        assert len(segment.source_tokens) >= 2
        assert not segment.source_tokens[0].HasField("log_probability")
        assert segment.source_tokens[-1].piece == "</s>"
        last = segment.source_words[-1]
        assert last.span.start == last.span.end == segment.source_span.end
        assert sum(word.token_count for word in segment.source_words) == len(segment.source_tokens)
        assert segment.timing == decoding_pb2.Timing(
            queue_seconds=0.1, encode_seconds=0.2, decode_seconds=0.3, steps=4, mean_batch_rows=2.5
        )


def test_hypotheses_keep_their_order_and_numbers(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    reply = write(bundle, pipeline, "echo", [4, 4], [4])
    first, second = reply.segments[0].hypotheses

    assert (first.score, second.score) == (-1.0, -2.0)
    assert first.finish_reason == decoding_pb2.FINISH_REASON_END
    assert first.end_log_probability == -0.25
    assert [token.log_probability for token in first.tokens] == [-0.5, -1.0]
    assert [first.text.encode()[token.span.start : token.span.end] for token in first.tokens] == [b"echo", b"echo"]
    assert len(second.tokens) == 1
    assert reply.text == first.text == "echo echo"


def test_the_best_hypotheses_are_joined_as_the_sentences_were(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    assert write(bundle, pipeline, "One is.\n\n Two is.", [4], [4, 4]).text == "echo\n\n echo"


def test_a_blank_text_is_answered_by_nothing(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    reply = write(bundle, pipeline, " \n")
    assert reply == translation_pb2.TranslationResult()
    assert not reply.HasField("error")


def test_words_are_linked_to_the_source_words_they_attend_to(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    text = "a é c"
    diagonal = np.eye(3, 4, dtype=np.float32)
    hypothesis = write(bundle, pipeline, text, [5, 4, 4], alignment=diagonal).segments[0].hypotheses[0]

    assert [(link.source_word, link.target_word, link.weight) for link in hypothesis.alignments] == [
        (0, 0, 1.0),
        (1, 1, 1.0),
        (2, 2, 1.0),
    ]
    link = hypothesis.alignments[1]
    assert text.encode()[link.source_span.start : link.source_span.end].decode() == "é"
    assert hypothesis.text.encode()[link.target_span.start : link.target_span.end] == b"echo"


def test_a_model_without_attention_gives_no_links(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    nothing = np.zeros((2, 0), dtype=np.float32)
    hypothesis = write(bundle, pipeline, "a b", [4, 4], alignment=nothing).segments[0].hypotheses[0]
    assert list(hypothesis.alignments) == []
    assert not hypothesis.HasField("attention")


def test_without_being_asked_no_attention_is_sent(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    assert not write(bundle, pipeline, "a", [4]).segments[0].hypotheses[0].HasField("attention")


def test_the_alignment_is_sent_by_token(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    segment = write(bundle, pipeline, "a b.", [4, 4, 4], attention=ALIGNMENTS).segments[0]
    attention = segment.hypotheses[0].attention

    assert list(attention.axes) == ["target", "source"]
    assert list(attention.shape) == [3, len(segment.source_tokens)]
    np.testing.assert_array_equal(read(attention), attend(3, len(segment.source_tokens))[0, 0])
    assert attention.indices == b""
    assert (list(attention.layers), list(attention.heads)) == ([], [])


def test_the_alignment_is_sent_by_word(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    choice = replace(ALIGNMENTS, by_word=True)
    segment = write(bundle, pipeline, "a b.", [4, 4], attention=choice).segments[0]
    hypothesis = segment.hypotheses[0]
    assert list(hypothesis.attention.shape) == [len(hypothesis.words), len(segment.source_words)]
    np.testing.assert_allclose(read(hypothesis.attention).sum(axis=-1), 1, atol=1e-5)


def test_words_of_several_tokens_are_one_row_and_one_column(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    (segment,) = pipeline.prepare("a b c")
    end = segment.words[-1]
    joined = replace(segment, words=(Word(0, 3, 0, 2), segment.words[2], end))
    choice = replace(ALIGNMENTS, by_word=True)
    reply = write_translation(
        "a b c", [joined], [result(segment, [4])], pipeline=pipeline, bundle=bundle, attention=choice
    )
    attention, full = reply.segments[0].hypotheses[0].attention, attend(1, 4)[0, 0]
    assert list(attention.shape) == [1, 3]
    np.testing.assert_allclose(read(attention), [[full[0, 0] + full[0, 1], full[0, 2], full[0, 3]]], atol=1e-6)


def test_chosen_layers_and_heads_are_sent_and_named(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    choice = replace(ALIGNMENTS, keep_heads=True, layers=(1,), heads=(2, 0))
    segment = write(bundle, pipeline, "a b", [4, 4], attention=choice).segments[0]
    attention, width = segment.hypotheses[0].attention, len(segment.source_tokens)

    assert list(attention.axes) == ["layer", "head", "target", "source"]
    assert list(attention.shape) == [1, 2, 2, width]
    assert (list(attention.layers), list(attention.heads)) == ([1], [2, 0])
    np.testing.assert_array_equal(read(attention), attend(2, width)[1:, [2, 0]])


def test_chosen_layers_and_heads_are_averaged(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    choice = replace(ALIGNMENTS, layers=(0, 1), heads=(1,))
    segment = write(bundle, pipeline, "a b", [4, 4], attention=choice).segments[0]
    attention, width = segment.hypotheses[0].attention, len(segment.source_tokens)
    np.testing.assert_allclose(read(attention), attend(2, width)[:, [1]].mean(axis=(0, 1)), atol=1e-6)
    assert list(attention.layers) == []


def test_the_largest_weights_come_with_their_columns(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    choice = replace(ALIGNMENTS, top_k=2, encoding=Encoding.FLOAT16)
    segment = write(bundle, pipeline, "a b c", [4, 4], attention=choice).segments[0]
    attention, width = segment.hypotheses[0].attention, len(segment.source_tokens)
    columns = np.frombuffer(attention.indices, dtype="<u2").reshape(attention.shape)
    full = attend(2, width)[0, 0]

    assert list(attention.shape) == [2, 2]
    assert attention.encoding == attention_pb2.ATTENTION_ENCODING_FLOAT16
    np.testing.assert_array_equal(columns, np.argsort(-full, axis=-1)[:, :2])
    np.testing.assert_allclose(read(attention), np.sort(full, axis=-1)[:, :-3:-1], atol=1e-3)


@pytest.mark.parametrize(
    ("choice", "shape"),
    [
        (ALIGNMENTS, [0, 3]),
        (replace(ALIGNMENTS, by_word=True), [0, 3]),
        (replace(ALIGNMENTS, keep_heads=True, layers=(0, 1), heads=(0, 1, 2)), [2, 3, 0, 3]),
        (replace(ALIGNMENTS, layers=(0,), heads=(0,), top_k=2), [0, 2]),
    ],
)
def test_an_empty_hypothesis_has_attention_without_rows(
    bundle: LoadedBundle, pipeline: TextPipeline, choice: AttentionOptions, shape: list[int]
) -> None:
    reply = write(bundle, pipeline, "a b", [], attention=choice)
    hypothesis = reply.segments[0].hypotheses[0]
    assert reply.text == hypothesis.text == ""
    assert list(hypothesis.tokens) == list(hypothesis.words) == list(hypothesis.alignments) == []
    assert list(hypothesis.attention.shape) == shape
    assert hypothesis.attention.values == b""


def unknown_between(pipeline: TextPipeline) -> tuple[str, list[SourceSegment]]:
    text = "One is. Two is. Three is."
    segments = list(pipeline.prepare(text))
    segments[1] = replace(segments[1], known=False)
    return text, segments


def test_a_segment_of_unknown_characters_has_an_empty_hypothesis(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    text, segments = unknown_between(pipeline)
    results = [result(segment, [4]) for segment in segments if segment.known]
    choice = replace(ALIGNMENTS, keep_heads=True, layers=(0, 1), heads=(0, 1, 2))
    reply = write_translation(text, segments, results, pipeline=pipeline, bundle=bundle, attention=choice)

    assert [segment.hypotheses[0].text for segment in reply.segments] == ["echo", "", "echo"]
    empty = reply.segments[1].hypotheses[0]
    assert (empty.score, empty.finish_reason) == (0.0, decoding_pb2.FINISH_REASON_END)
    assert list(empty.attention.shape) == [2, 3, 0, len(segments[1].ids)]


@pytest.mark.parametrize("count", [1, 3])
def test_results_that_do_not_fit_the_segments_are_a_bug(
    bundle: LoadedBundle, pipeline: TextPipeline, count: int
) -> None:
    text, segments = unknown_between(pipeline)
    results = [result(segments[0], [4])] * count
    with pytest.raises(ValueError, match="results than segments"):
        write_translation(text, segments, results, pipeline=pipeline, bundle=bundle, attention=None)


@pytest.mark.parametrize(
    "changes",
    [
        {"score": float("nan")},
        {"score": float("-inf")},
        {"end_log_probability": float("inf")},
        {"log_probabilities": np.array([0.0, -np.inf], dtype=np.float32)},
        {"alignment": np.array([[np.nan, 0, 0], [1, 0, 0]], dtype=np.float32)},
    ],
)
def test_what_is_not_a_number_never_leaves(
    bundle: LoadedBundle, pipeline: TextPipeline, changes: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"a result holds"):
        write(bundle, pipeline, "a b", [4, 4], **changes)


def test_attention_that_is_not_a_number_never_leaves(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    attention = np.full((2, 3, 1, 2), np.nan, dtype=np.float32)
    choice = replace(ALIGNMENTS, keep_heads=True, layers=(0, 1), heads=(0, 1, 2))
    segments = pipeline.prepare("a")
    broken = result(segments[0], [4], attention=attention)
    with pytest.raises(ValueError, match="not finite"):
        write_translation("a", segments, [broken], pipeline=pipeline, bundle=bundle, attention=choice)


def test_a_score_is_about_the_given_target(bundle: LoadedBundle, pipeline: TextPipeline) -> None:
    (segment,) = pipeline.prepare("a b", split=False)
    target = pipeline.encode_target(" echo  echo ")
    scored = result(segment, target.ids.tolist(), finish_reason=FinishReason.FORCED)
    reply = write_score(segment, target, scored, attention=ALIGNMENTS)
    hypothesis = reply.segment.hypotheses[0]

    assert hypothesis.text == " echo  echo "
    assert hypothesis.finish_reason == decoding_pb2.FINISH_REASON_FORCED
    assert [(token.span.start, token.span.end) for token in hypothesis.tokens] == [(1, 5), (7, 11)]
    assert list(hypothesis.attention.shape) == [2, 3]


def test_an_error_of_one_text_names_it() -> None:
    error = write_item_error(InvalidRequest("texts[3]", "has 9 bytes"), code=3, field="texts[3]")
    assert (error.code, error.message, error.field) == (3, "has 9 bytes", "texts[3]")


def test_an_error_that_knows_no_field_gets_that_of_the_item() -> None:
    error = write_item_error(DeadlinePassed("queue"), code=4, field="texts[1]")
    assert (error.code, error.message, error.field) == (4, "the deadline passed in the queue", "texts[1]")

"""Which requests are understood, and what is said of the others."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bundles import NULL

from regard.contract.bundle import LoadedBundle, load_bundle
from regard.server.errors import InvalidRequest, UnsupportedByModel
from regard.server.services.alignment import Encoding
from regard.server.services.decoding_options import DecodingOptions
from regard.server.services.request_messages import (
    TranslateOptions,
    check_text,
    read_score_request,
    read_translate_request,
)
from regard.server.settings import Limits
from regard.v1 import attention_pb2, bundle_pb2, decoding_pb2, translation_pb2

LIMITS = Limits(max_texts=3, max_text_bytes=20, max_beam_size=16)

Decoding = decoding_pb2.DecodingOptions
Attention = attention_pb2.AttentionOptions


@pytest.fixture(scope="module")
def bundle() -> LoadedBundle:
    """Two layers of three heads, English to Spanish."""
    bundle = load_bundle(NULL)
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(bundle.manifest)
    manifest.source_languages.append("en")
    manifest.target_languages.extend(["es", "pt-BR"])
    return replace(bundle, manifest=manifest, ports=replace(bundle.ports, layers=2, heads=3), max_target_tokens=100)


def translate(bundle: LoadedBundle, **fields: Any) -> TranslateOptions:
    return read_translate_request(translation_pb2.TranslateRequest(**fields), bundle=bundle, limits=LIMITS)


def refusal(bundle: LoadedBundle, **fields: Any) -> tuple[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        translate(bundle, **fields)
    return caught.value.field, caught.value.description


def test_a_plain_request_gets_the_defaults(bundle: LoadedBundle) -> None:
    assert translate(bundle, texts=["a", ""], priority=2) == TranslateOptions(
        texts=("a", ""),
        decoding=DecodingOptions(beam_size=1, n_best=1, length_penalty=1.0, min_length=0, max_length=None),
        attention=None,
        priority=2,
        end_id=3,
    )


def test_texts_and_pairs_are_counted_before_anything_goes_through_them(bundle: LoadedBundle) -> None:
    unknown = b"\xfa\x07\x01x"  # field 127
    texts = translation_pb2.TranslateRequest(texts=["a"] * 4)
    texts.MergeFromString(unknown)
    pair = translation_pb2.TranslationPair.FromString(unknown)
    with pytest.raises(InvalidRequest, match="has 4 texts; the limit is 3"):
        read_translate_request(texts, bundle=bundle, limits=LIMITS)
    with pytest.raises(InvalidRequest, match="has 4 pairs; the limit is 3"):
        read_score_request(translation_pb2.ScoreTranslationRequest(pairs=[pair] * 4), bundle=bundle, limits=LIMITS)


def test_no_more_layers_and_heads_are_read_than_there_are(bundle: LoadedBundle) -> None:
    # Their number is told, not the first that is none: they are not gone through.
    layers = Attention(reduction=attention_pb2.ATTENTION_REDUCTION_NONE, layers=[99] * 1000)
    heads = Attention(reduction=attention_pb2.ATTENTION_REDUCTION_NONE, heads=[99] * 1000)
    assert refusal(bundle, attention=layers) == ("attention.layers", "has 1000 layers; the model has 2")
    assert refusal(bundle, attention=heads) == ("attention.heads", "has 1000 heads; the model has 3")


def test_every_option_is_read(bundle: LoadedBundle) -> None:
    options = Decoding(beam_size=16, n_best=3, length_penalty=0, min_length=2, max_length=9)
    assert translate(bundle, decoding=options).decoding == DecodingOptions(
        beam_size=16, n_best=3, length_penalty=0.0, min_length=2, max_length=9
    )


def test_no_texts_are_fine_and_too_many_are_not(bundle: LoadedBundle) -> None:
    assert translate(bundle).texts == ()
    assert len(translate(bundle, texts=["a"] * 3).texts) == 3
    assert refusal(bundle, texts=["a"] * 4) == ("texts", "has 4 texts; the limit is 3")


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        (Decoding(beam_size=0), "decoding.beam_size", "must be between 1 and 16, got 0"),
        (Decoding(beam_size=-1), "decoding.beam_size", "must be between 1 and 16, got -1"),
        (Decoding(beam_size=17), "decoding.beam_size", "must be between 1 and 16, got 17"),
        (Decoding(beam_size=10**9), "decoding.beam_size", "must be between 1 and 16, got 1000000000"),
        (Decoding(n_best=0), "decoding.n_best", "must be between 1 and beam_size (1), got 0"),
        (Decoding(n_best=2), "decoding.n_best", "must be between 1 and beam_size (1), got 2"),
        (Decoding(beam_size=4, n_best=5), "decoding.n_best", "must be between 1 and beam_size (4), got 5"),
        (Decoding(length_penalty=-0.1), "decoding.length_penalty", "must be between 0 and 5.0"),
        (Decoding(length_penalty=5.1), "decoding.length_penalty", "must be between 0 and 5.0"),
        (Decoding(length_penalty=math.nan), "decoding.length_penalty", "must be between 0 and 5.0, got nan"),
        (Decoding(length_penalty=math.inf), "decoding.length_penalty", "must be between 0 and 5.0, got inf"),
        (Decoding(max_length=0), "decoding.max_length", "must be between 1 and 100, got 0"),
        (Decoding(max_length=101), "decoding.max_length", "must be between 1 and 100, got 101"),
        (Decoding(min_length=-1), "decoding.min_length", "must be between 0 and 100, got -1"),
        (Decoding(min_length=101), "decoding.min_length", "must be between 0 and 100, got 101"),
        (Decoding(min_length=6, max_length=5), "decoding.min_length", "must be between 0 and max_length (5), got 6"),
    ],
)
def test_values_out_of_range_are_refused_with_the_limit(
    bundle: LoadedBundle, options: decoding_pb2.DecodingOptions, field: str, said: str
) -> None:
    where, description = refusal(bundle, decoding=options)
    assert where == field
    assert said in description


@pytest.mark.parametrize("tag", ["es", "ES", "es-ES", "es-419", "es-Latn-MX", "pt-BR", "pt-br", "PT-br-x-mine"])
def test_a_language_is_found_by_its_tag_or_a_shorter_one(bundle: LoadedBundle, tag: str) -> None:
    translate(bundle, target_language=tag)


@pytest.mark.parametrize("tag", ["", "fr", "pt", "pt-PT", "esp", "es_ES", "-es", "Spanish", "x" * 1000, "\x1b[31m"])
def test_other_languages_are_refused_with_those_there_are(bundle: LoadedBundle, tag: str) -> None:
    field, description = refusal(bundle, target_language=tag)
    assert field == "target_language"
    assert "is not offered; model null writes es, pt-BR" in description
    assert description.isprintable()
    assert len(description) < 120


@pytest.mark.parametrize(("tag", "end_id"), [(None, 60), ("es", 60), ("ES-mx", 60), ("pt-BR", 61), ("pt-br-x-a", 61)])
def test_the_language_asked_for_says_what_ends_a_source(bundle: LoadedBundle, tag: str | None, end_id: int) -> None:
    several = replace(bundle, target_end_ids={"es": 60, "pt-BR": 61})
    fields: dict[str, Any] = {} if tag is None else {"target_language": tag}
    assert translate(several, **fields).end_id == end_id
    score = translation_pb2.ScoreTranslationRequest(**fields)
    assert read_score_request(score, bundle=several, limits=LIMITS).end_id == end_id


def test_a_model_of_no_language_has_none_to_choose(bundle: LoadedBundle) -> None:
    _, description = refusal(replace(bundle, manifest=bundle_pb2.Bundle()), target_language="es")
    assert "writes no language in particular" in description


def test_lengths_are_bounded_by_the_source_and_by_the_model(bundle: LoadedBundle) -> None:
    choice = translate(bundle).decoding
    assert choice.for_segment(2, bundle).max_length == 14
    assert choice.for_segment(45, bundle).max_length == 100
    assert choice.for_segment(46, bundle).max_length == 100


def test_a_callers_length_counts_where_it_is_shorter(bundle: LoadedBundle) -> None:
    choice = translate(bundle, decoding=Decoding(min_length=18, max_length=20)).decoding
    assert choice.for_segment(30, bundle).max_length == 20
    assert choice.for_segment(30, bundle).min_length == 18
    assert choice.for_segment(2, bundle).max_length == choice.for_segment(2, bundle).min_length == 14


@settings(deadline=None)
@given(
    source=st.integers(2, 256),
    shortest=st.integers(0, 100),
    longest=st.one_of(st.none(), st.integers(1, 100)),
    bound=st.integers(1, 300),
)
def test_lengths_of_a_segment_are_always_in_order(
    bundle: LoadedBundle, source: int, shortest: int, longest: int | None, bound: int
) -> None:
    choice = DecodingOptions(beam_size=1, n_best=1, length_penalty=1.0, min_length=shortest, max_length=longest)
    search = choice.for_segment(source, replace(bundle, max_target_tokens=bound))
    assert 0 <= search.min_length <= search.max_length <= min(2 * source + 10, bound)
    assert search.max_length >= 1


def test_attention_by_default_is_the_alignment_between_tokens(bundle: LoadedBundle) -> None:
    choice = translate(bundle, attention=Attention()).attention
    assert choice is not None
    assert not choice.by_word
    assert not choice.keep_heads
    assert not choice.needs_every_head
    assert (choice.layers, choice.heads, choice.encoding, choice.top_k) == (None, None, Encoding.FLOAT32, None)


def test_all_layers_and_heads_are_meant_where_none_are_named(bundle: LoadedBundle) -> None:
    options = Attention(
        granularity=attention_pb2.ATTENTION_GRANULARITY_WORD,
        reduction=attention_pb2.ATTENTION_REDUCTION_NONE,
        encoding=attention_pb2.ATTENTION_ENCODING_UINT8,
        top_k=4,
    )
    choice = translate(bundle, attention=options).attention
    assert choice is not None
    assert choice.by_word
    assert choice.keep_heads
    assert choice.needs_every_head
    assert (choice.layers, choice.heads, choice.encoding, choice.top_k) == ((0, 1), (0, 1, 2), Encoding.UINT8, 4)


def test_a_mean_over_some_heads_needs_every_head(bundle: LoadedBundle) -> None:
    options = Attention(reduction=attention_pb2.ATTENTION_REDUCTION_MEAN, layers=[1], heads=[2, 0])
    choice = translate(bundle, attention=options).attention
    assert choice is not None
    assert not choice.keep_heads
    assert choice.needs_every_head
    assert (choice.layers, choice.heads) == ((1,), (2, 0))


MEAN = attention_pb2.ATTENTION_REDUCTION_MEAN
UNKNOWN: Any = 99


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        (Attention(granularity=UNKNOWN), "attention.granularity", "unknown AttentionGranularity 99"),
        (Attention(reduction=UNKNOWN), "attention.reduction", "unknown AttentionReduction 99"),
        (Attention(encoding=UNKNOWN), "attention.encoding", "unknown AttentionEncoding 99"),
        (Attention(top_k=0), "attention.top_k", "must be at least 1, got 0"),
        (Attention(top_k=-3), "attention.top_k", "must be at least 1, got -3"),
        (Attention(layers=[0]), "attention.layers", "cannot be combined with the reduction ALIGNMENT"),
        (Attention(heads=[0]), "attention.heads", "cannot be combined with the reduction ALIGNMENT"),
        (Attention(reduction=MEAN, layers=[0, 2]), "attention.layers[1]", "must be between 0 and 1, got 2"),
        (Attention(reduction=MEAN, heads=[-1]), "attention.heads[0]", "must be between 0 and 2, got -1"),
        (Attention(reduction=MEAN, heads=[1, 1]), "attention.heads", "contains a duplicate"),
    ],
)
def test_attention_that_there_is_not_is_refused(
    bundle: LoadedBundle, options: attention_pb2.AttentionOptions, field: str, said: str
) -> None:
    where, description = refusal(bundle, attention=options)
    assert where == field
    assert said in description


def test_a_model_without_attention_cannot_return_any(bundle: LoadedBundle) -> None:
    without = replace(bundle, ports=replace(bundle.ports, layers=0, heads=0), alignment_heads=())
    assert translate(without).attention is None
    with pytest.raises(UnsupportedByModel, match="model null has no attention to return") as caught:
        translate(without, attention=Attention())
    assert caught.value.reason == "NO_ATTENTION"


def test_fields_that_this_server_does_not_know_are_refused(bundle: LoadedBundle) -> None:
    known = translation_pb2.TranslateRequest(texts=["a"], decoding=Decoding(beam_size=2))
    strange = bytes([0x98, 0x06, 0x01])  # field 99, a varint
    for request, field in (
        (translation_pb2.TranslateRequest.FromString(known.SerializeToString() + strange), "request"),
        (
            translation_pb2.TranslateRequest(decoding=Decoding.FromString(Decoding().SerializeToString() + strange)),
            "decoding",
        ),
    ):
        with pytest.raises(InvalidRequest, match="has field number 99, which this server does not know") as caught:
            read_translate_request(request, bundle=bundle, limits=LIMITS)
        assert caught.value.field == field


def test_unknown_fields_of_a_pair_are_refused_too(bundle: LoadedBundle) -> None:
    pairs = [translation_pb2.TranslationPair(), translation_pb2.TranslationPair.FromString(bytes([0x98, 0x06, 0x01]))]
    with pytest.raises(InvalidRequest, match=r"pairs\[1\]: has field number 99"):
        read_score_request(translation_pb2.ScoreTranslationRequest(pairs=pairs), bundle=bundle, limits=LIMITS)


def test_a_score_request_is_read(bundle: LoadedBundle) -> None:
    request = translation_pb2.ScoreTranslationRequest(
        pairs=[translation_pb2.TranslationPair(source="a", target="b")],
        target_language="es",
        length_penalty=0.5,
        attention=Attention(),
        priority=-1,
    )
    options = read_score_request(request, bundle=bundle, limits=LIMITS)
    assert (options.pairs, options.length_penalty, options.priority) == ((("a", "b"),), 0.5, -1)
    assert options.attention is not None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pairs": [translation_pb2.TranslationPair()] * 4}, "pairs: has 4 pairs; the limit is 3"),
        ({"length_penalty": math.nan}, "length_penalty: must be between 0 and 5.0, got nan"),
        ({"target_language": "fr"}, "target_language: 'fr' is not offered"),
        ({"attention": Attention(top_k=0)}, "attention.top_k: must be at least 1, got 0"),
    ],
)
def test_a_wrong_score_request_is_refused(bundle: LoadedBundle, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_score_request(translation_pb2.ScoreTranslationRequest(**fields), bundle=bundle, limits=LIMITS)
    assert said in str(caught.value)


def test_the_limit_of_a_text_counts_bytes() -> None:
    check_text("é" * 10, field="texts[0]", limits=LIMITS)
    with pytest.raises(InvalidRequest, match=r"texts\[0\]: has 21 bytes; the limit is 20"):
        check_text("é" * 10 + "x", field="texts[0]", limits=LIMITS)


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(InvalidRequest, match=r"texts\[0\]: is not valid Unicode: unpaired surrogate at character 1"):
        check_text("x\ud800", field="texts[0]", limits=LIMITS)


INT32 = st.one_of(st.integers(-2, 20), st.integers(-(2**31), 2**31 - 1))


@settings(deadline=None)
@given(
    options=st.fixed_dictionaries(
        {},
        optional={
            "beam_size": INT32,
            "n_best": INT32,
            "length_penalty": st.floats(width=32),
            "min_length": INT32,
            "max_length": INT32,
        },
    )
)
def test_any_options_are_within_bounds_or_refused(bundle: LoadedBundle, options: dict[str, Any]) -> None:
    try:
        choice = translate(bundle, decoding=Decoding(**options)).decoding
    except InvalidRequest as error:
        assert error.field.removeprefix("decoding.") in {*options, "n_best"}  # noqa: PT017 (most options are fine)
        return
    assert 1 <= choice.n_best <= choice.beam_size <= 16
    assert 0 <= choice.length_penalty <= 5
    assert 0 <= choice.min_length <= (choice.max_length or 100) <= 100


@pytest.mark.parametrize("priority", [-11, 11, 2**31 - 1])
def test_no_caller_puts_himself_before_all_others(bundle: LoadedBundle, priority: int) -> None:
    assert refusal(bundle, priority=priority) == ("priority", f"must be between -10 and 10, got {priority}")
    assert translate(bundle, priority=10).priority == 10

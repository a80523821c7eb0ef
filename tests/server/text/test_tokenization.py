"""What becomes of a text on its way to ids, and of ids on their way to a text."""

import threading
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.text_tokenizers import SENTENCES, bundle_with, spell_bytes, train
from tokenizers import Tokenizer

from regard.server.errors import InvalidRequest
from regard.server.text.segmentation import blank_invisible
from regard.server.text.tokenization import RenderedTarget, SourceSegment, TextPipeline
from regard.v1 import bundle_pb2


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("subwords") / "tokenizer.json")


@pytest.fixture(scope="module")
def byte_pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spell_bytes(tmp_path_factory.mktemp("bytes") / "tokenizer.json")


@pytest.fixture(scope="module")
def pipeline(subwords: Path) -> TextPipeline:
    return TextPipeline(bundle_with(subwords))


@pytest.fixture(scope="module", params=["subwords", "byte_pieces"])
def any_pipeline(request: pytest.FixtureRequest) -> TextPipeline:
    return TextPipeline(bundle_with(request.getfixturevalue(request.param), max_source_tokens=4096))


def cut(text: str, start: int, end: int) -> str:
    return text.encode()[start:end].decode()


def words_of(text: str, segment: SourceSegment | RenderedTarget) -> list[str]:
    return [cut(text, word.start, word.end) for word in segment.words]


def tokens_of(text: str, segment: SourceSegment | RenderedTarget) -> list[str]:
    return [cut(text, token.start, token.end) for token in segment.tokens]


def squeeze(text: str) -> str:
    """The text without all that counts as white space."""
    return "".join(blank_invisible(text).split())


def check_segments(text: str, segments: tuple[SourceSegment, ...]) -> None:
    """What must hold of every segment of every text."""
    end = 0
    for segment in segments:
        assert end <= segment.start < segment.end
        end = segment.end
        assert len(segment.ids) == len(segment.tokens) >= 2
        assert [token.id for token in segment.tokens] == segment.ids.tolist()
        assert segment.tokens[-1] == (3, "</s>", segment.end, segment.end)
        # Cutting decodes, which fails inside a character.
        assert squeeze("".join(tokens_of(text, segment))) == squeeze(cut(text, segment.start, segment.end))
        check_words(segment)
        assert segment.words[-1] == (segment.end, segment.end, len(segment.ids) - 1, 1)


def check_words(segment: SourceSegment | RenderedTarget) -> None:
    covered = [
        token for word in segment.words for token in range(word.first_token, word.first_token + word.token_count)
    ]
    assert covered == list(range(len(segment.tokens)))
    for word in segment.words:
        run = segment.tokens[word.first_token : word.first_token + word.token_count]
        assert (word.start, word.end) == (run[0].start, run[-1].end)


def test_a_sentence_becomes_ids_that_end_in_the_end_of_sentence(pipeline: TextPipeline) -> None:
    (segment,) = pipeline.prepare("We packed the tent.")
    assert segment.ids.dtype == np.int64
    assert segment.ids[-1] == 3
    assert 3 not in segment.ids[:-1]


def test_sentences_become_segments_with_offsets_in_the_whole_text(pipeline: TextPipeline) -> None:
    text = "  ¿Cómo?  Then we swam. \n\tWe packed.  "
    segments = pipeline.prepare(text)
    assert [cut(text, segment.start, segment.end) for segment in segments] == ["¿Cómo?", "Then we swam.", "We packed."]
    check_segments(text, segments)


@pytest.mark.parametrize("text", ["", " ", "\n\t\r\n", "\u3000\u00a0", "\x00", "\ufeff", "\x1b \x07"])
@pytest.mark.parametrize("split", [True, False])
def test_a_blank_text_has_no_segments(pipeline: TextPipeline, text: str, split: bool) -> None:
    assert pipeline.prepare(text, split=split) == ()
    assert pipeline.join(text, (), ()) == ""


def test_without_splitting_a_text_is_one_segment(pipeline: TextPipeline) -> None:
    text = " We packed. Then\nwe swam. "
    (segment,) = pipeline.prepare(text, split=False)
    assert cut(text, segment.start, segment.end) == "We packed. Then\nwe swam."
    check_segments(text, (segment,))


def test_composed_and_decomposed_letters_are_the_same_to_a_model(pipeline: TextPipeline) -> None:
    composed = "Le garçon a mangé à côté du château."
    decomposed = unicodedata.normalize("NFD", composed)
    (one,), (other,) = pipeline.prepare(composed), pipeline.prepare(decomposed)

    assert one.ids.tolist() == other.ids.tolist()
    assert tokens_of(composed, one) == [unicodedata.normalize("NFC", token) for token in tokens_of(decomposed, other)]
    assert words_of(composed, one) == [unicodedata.normalize("NFC", word) for word in words_of(decomposed, other)]
    check_segments(decomposed, (other,))


def test_spans_reach_the_end_of_text_that_the_vocabulary_does_not_know(pipeline: TextPipeline) -> None:
    text = unicodedata.normalize("NFD", "한국어 문장을 번역해요")
    (segment,) = pipeline.prepare(text)
    assert segment.tokens[-2].end == segment.end == len(text.encode())
    check_segments(text, (segment,))


def test_a_mark_that_fits_no_letter_stays_with_the_letter_before_it(pipeline: TextPipeline) -> None:
    text = "We s\u0303wam."
    (segment,) = pipeline.prepare(text)
    assert not any(token.startswith("\u0303") for token in tokens_of(text, segment))
    assert words_of(text, segment) == ["We", "s\u0303wam", ".", ""]


def test_text_after_an_emoji_is_still_there(pipeline: TextPipeline) -> None:
    plain = "We packed the tent. Then we drove."
    with_emoji = "We packed the tent. \U0001f606 Then we drove."
    first, second = pipeline.prepare(with_emoji)

    assert first.ids.tolist() == pipeline.prepare(plain)[0].ids.tolist()
    assert words_of(with_emoji, second) == ["\U0001f606", "Then", "we", "drove", ".", ""]
    assert second.known
    assert pipeline.prepare(plain)[1].ids.tolist() == [
        token.id for token in second.tokens if token.piece not in ("▁", "<unk>")
    ]


@pytest.mark.parametrize("text", ["\U0001f606", "慢慢走过来", "\U0001f606 \U0001f606", "\u0301"])
def test_a_sentence_of_unknown_characters_is_not_for_the_model(pipeline: TextPipeline, text: str) -> None:
    (segment,) = pipeline.prepare(text)
    assert not segment.known
    assert len(segment.ids) >= 2
    check_segments(text, (segment,))


def test_a_byte_order_mark_changes_nothing(pipeline: TextPipeline) -> None:
    (plain,), (marked,) = pipeline.prepare("We swam."), pipeline.prepare("\ufeffWe swam.")
    assert marked.ids.tolist() == plain.ids.tolist()
    assert (marked.start, marked.end) == (3, 11)


def test_text_after_a_nul_is_still_there(pipeline: TextPipeline) -> None:
    text = "We packed.\x00 Then we swam."
    segments = pipeline.prepare(text)
    assert [cut(text, segment.start, segment.end) for segment in segments] == ["We packed.", "Then we swam."]


def test_control_characters_separate_words_and_are_in_none(pipeline: TextPipeline) -> None:
    text = "the\x07tent \x1b[31mwe"
    (segment,) = pipeline.prepare(text)
    assert words_of(text, segment)[:2] == ["the", "tent"]
    assert not any("\x07" in token or "\x1b" in token for token in tokens_of(text, segment))


def test_half_a_surrogate_pair_is_refused(pipeline: TextPipeline) -> None:
    with pytest.raises(InvalidRequest, match=r"texts\[2\]: is not valid Unicode: unpaired surrogate at character 3"):
        pipeline.prepare("We \ud800 swam.", field="texts[2]")
    with pytest.raises(InvalidRequest, match="target: is not valid Unicode"):
        pipeline.encode_target("\udfff")


@pytest.mark.parametrize("text", ["a  b", " a b ", "a\tb", "a \u3000 b"])
def test_how_much_space_there_is_shifts_no_words(pipeline: TextPipeline, text: str) -> None:
    (segment,) = pipeline.prepare(text)
    assert words_of(text, segment) == ["a", "b", ""]


def test_special_tokens_in_a_text_are_text(any_pipeline: TextPipeline) -> None:
    text = "a </s> b <pad> c"
    (segment,) = any_pipeline.prepare(text)
    assert segment.ids.tolist().count(3) == 1
    assert 0 not in segment.ids
    check_segments(text, (segment,))


def test_settings_of_a_tokenizer_cut_nothing_off(byte_pieces: Path) -> None:
    (segment,) = TextPipeline(bundle_with(byte_pieces)).prepare("abcdefghijklmnop")
    assert len(segment.ids) == 18


@pytest.mark.parametrize(("letters", "fits"), [(61, True), (62, True), (63, False)])
def test_the_limit_counts_tokens_and_the_end_of_sentence(byte_pieces: Path, letters: int, fits: bool) -> None:
    pipeline = TextPipeline(bundle_with(byte_pieces, max_source_tokens=64))
    if fits:  # One token for each letter, one for the mark of the first word, one for the end.
        assert len(pipeline.prepare("a" * letters)[0].ids) == letters + 2
        return
    with pytest.raises(
        InvalidRequest,
        match=r"text: the sentence at bytes 0 to 63 has 65 tokens; the limit is 64, end of sentence included",
    ):
        pipeline.prepare("a" * letters)


def test_the_sentence_that_is_too_long_is_named(pipeline: TextPipeline) -> None:
    text = "We packed. " + " ".join(["tent"] * 99) + ". Then we swam."
    with pytest.raises(InvalidRequest, match="the sentence at bytes 11 to 506 has"):
        pipeline.prepare(text)


@pytest.mark.parametrize("text", ["x" * 60_000, "\U0001f606" * 15_000, "\u0301" * 30_000, "a " * 30_000])
def test_a_monstrous_sentence_is_refused_without_reading_it(pipeline: TextPipeline, text: str) -> None:
    with pytest.raises(InvalidRequest, match="no more than 2048 characters are tried"):
        pipeline.prepare(text)


def test_too_many_sentences_are_refused_before_any_is_read(pipeline: TextPipeline) -> None:
    with pytest.raises(InvalidRequest, match="text: has 3 sentences; the limit is 2"):
        pipeline.prepare("We swam. " * 2 + "x" * 60_000, max_segments=2)
    assert len(pipeline.prepare("We swam. " * 2, max_segments=2)) == 2


def test_translations_are_joined_by_what_stood_between(pipeline: TextPipeline) -> None:
    text = "\n We packed.  Then we swam.\r\n\r\n\tWe packed.\x00Then\x1b \n"
    segments = pipeline.prepare(text)
    assert pipeline.join(text, segments, ["Uno.", "¿Dos?", "Tres.", "4"]) == "Uno.  ¿Dos?\r\n\r\n\tTres. 4"


def test_joining_the_sentences_themselves_gives_the_text_back(pipeline: TextPipeline) -> None:
    text = " ".join(f"Sentence number {number} says: é." for number in range(40))
    segments = pipeline.prepare(text)
    assert len(segments) == 40
    assert pipeline.join(text, segments, [cut(text, segment.start, segment.end) for segment in segments]) == text


def test_a_target_is_read_without_end_of_sentence(pipeline: TextPipeline) -> None:
    text = " ¿Cómo están?  "
    target = pipeline.encode_target(text)
    assert target.ids.tolist() == pipeline.prepare(text, split=False)[0].ids.tolist()[:-1]
    assert target.rendered.text == text
    assert words_of(text, target.rendered) == ["¿", "Cómo", "están", "?"]
    check_words(target.rendered)


def test_a_blank_target_has_no_tokens(pipeline: TextPipeline) -> None:
    target = pipeline.encode_target(" ")
    assert target.ids.shape == (0,)
    assert target.ids.dtype == np.int64
    assert (target.rendered.tokens, target.rendered.words) == ((), ())


def test_a_target_may_have_as_many_tokens_as_the_model_writes(byte_pieces: Path) -> None:
    pipeline = TextPipeline(bundle_with(byte_pieces, max_target_tokens=10))
    assert len(pipeline.encode_target("a" * 9).ids) == 10
    with pytest.raises(InvalidRequest, match=r"pairs\[0\]\.target: .* has 11 tokens; the limit is 10"):
        pipeline.encode_target("a" * 10, field="pairs[0].target")


def test_target_tokens_that_the_model_never_writes_count_as_unknown(byte_pieces: Path) -> None:
    pipeline = TextPipeline(bundle_with(byte_pieces, predictable=8))
    target = pipeline.encode_target("abz")
    assert target.ids.tolist() == [4, 5, 6, 1]
    assert target.rendered.tokens[-1] == (1, "<unk>", 2, 3)


def test_ids_of_a_sentence_say_that_sentence(pipeline: TextPipeline) -> None:
    for text in SENTENCES:
        rendered = pipeline.render(pipeline.encode_target(text).ids)
        assert rendered.text == text
        assert rendered.tokens == pipeline.encode_target(text).rendered.tokens
        assert rendered.words == pipeline.encode_target(text).rendered.words


def test_a_mark_of_space_at_the_start_shifts_no_token(pipeline: TextPipeline, subwords: Path) -> None:
    mark = Tokenizer.from_file(str(subwords)).token_to_id("\u2581")
    assert mark is not None
    rendered = pipeline.render([mark, *pipeline.encode_target("We swam.").ids])
    assert rendered.text == "We swam."
    assert tokens_of(rendered.text, rendered)[1:] == tokens_of("We swam.", pipeline.encode_target("We swam.").rendered)


def test_no_ids_say_nothing(any_pipeline: TextPipeline) -> None:
    assert any_pipeline.render([]) == RenderedTarget(text="", tokens=(), words=())


def test_special_tokens_say_nothing(any_pipeline: TextPipeline) -> None:
    rendered = any_pipeline.render([2, 10, 1, 0, 11, 3])
    assert [token.id for token in rendered.tokens] == [2, 10, 1, 0, 11, 3]
    assert "<" not in rendered.text
    check_words(rendered)


def test_bytes_of_one_character_are_one_character(byte_pieces: Path) -> None:
    pipeline = TextPipeline(bundle_with(byte_pieces))
    rendered = pipeline.render(pipeline.encode_target("ab \U0001f606 é.").ids)
    assert rendered.text == "ab \U0001f606 é."
    assert "".join(tokens_of(rendered.text, rendered)) == "ab\U0001f606é."


@settings(deadline=None)
@given(text=st.text())
def test_any_text_is_cut_exactly(any_pipeline: TextPipeline, text: str) -> None:
    segments = any_pipeline.prepare(text)
    check_segments(text, segments)
    any_pipeline.join(text, segments, ["x"] * len(segments))


@settings(deadline=None)
# Short, as one sentence may have 64 tokens and a composed letter up to four of them.
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=15), form=st.sampled_from(["NFC", "NFD"]))
def test_normalised_texts_give_equal_ids(pipeline: TextPipeline, text: str, form: Any) -> None:
    # Composing may turn one blank into another, or a letter into two; nothing that a reader would see.
    normal = unicodedata.normalize(form, unicodedata.normalize("NFC", text))
    one = pipeline.prepare(unicodedata.normalize("NFC", text), split=False)
    other = pipeline.prepare(normal, split=False)
    assert [segment.ids.tolist() for segment in one] == [segment.ids.tolist() for segment in other]
    check_segments(normal, other)


@settings(deadline=None)
@given(data=st.data())
def test_any_ids_are_rendered_with_exact_spans(any_pipeline: TextPipeline, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(4, 150), max_size=60))
    rendered = any_pipeline.render(ids)

    assert [token.id for token in rendered.tokens] == ids
    assert "".join(tokens_of(rendered.text, rendered)) == "".join(rendered.text.split())
    assert rendered.text == rendered.text.strip()
    assert [token.start for token in rendered.tokens] == sorted(token.start for token in rendered.tokens)
    check_words(rendered)


@settings(deadline=None)
@given(data=st.data())
def test_every_token_stands_where_its_piece_is_written(pipeline: TextPipeline, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(4, 150), max_size=60))
    rendered = pipeline.render(ids)
    assert tokens_of(rendered.text, rendered) == [token.piece.replace("\u2581", "") for token in rendered.tokens]


def test_threads_do_not_disturb_each_other(pipeline: TextPipeline) -> None:
    expected = [tuple(pipeline.prepare(text)[0].ids.tolist()) for text in SENTENCES]
    found: dict[int, set[tuple[int, ...]]] = {index: set() for index in range(len(SENTENCES))}

    def work(index: int) -> None:
        for _ in range(50):
            found[index].add(tuple(pipeline.prepare(SENTENCES[index])[0].ids.tolist()))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(SENTENCES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {index: {ids} for index, ids in enumerate(expected)}


def with_rules(tokenizer: Path) -> TextPipeline:
    """A pipeline whose bundle asks for plain marks and for capitals to be read as small letters."""
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(bundle_with(tokenizer).manifest)
    manifest.text_rules.plain_marks = manifest.text_rules.capitals = True
    return TextPipeline(bundle_with(tokenizer, manifest=manifest))


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("Don\u2019t you know?", "Don't you know?"),
        ("Then we drove to the la\u00adke.", "Then we drove to the lake."),
        ("Then\u00a0we drove\u200b.", "Then we drove."),
        ("DON'T YOU KNOW?", "Don't you know?"),
    ],
)
def test_a_bundle_that_asks_for_it_reads_marks_as_plain_ones(
    subwords: Path, pipeline: TextPipeline, marked: str, plain: str
) -> None:
    (segment,) = with_rules(subwords).prepare(marked)
    (expected,) = pipeline.prepare(plain)
    assert segment.ids.tolist() == expected.ids.tolist()
    check_segments(marked, (segment,))


def test_a_bundle_that_does_not_ask_reads_marks_as_they_are(pipeline: TextPipeline) -> None:
    (segment,) = pipeline.prepare("DON\u2019T YOU KNOW?")
    (plain,) = pipeline.prepare("Don't you know?")
    assert segment.ids.tolist() != plain.ids.tolist()
    assert not segment.capitals


@given(text=st.text(max_size=60))
@settings(max_examples=60)
def test_spans_hold_every_character_whatever_is_normalised(subwords: Path, text: str) -> None:
    check_segments(text, with_rules(subwords).prepare(text))


def test_an_answer_to_capitals_is_in_capitals_with_its_spans(subwords: Path) -> None:
    pipeline = with_rules(subwords)
    ids = pipeline.encode_target("garçon a mangé").ids
    rendered = pipeline.render(ids, capitals=True)
    assert rendered.text == "GARÇON A MANGÉ"
    assert words_of(rendered.text, rendered) == ["GARÇON", "A", "MANGÉ"]

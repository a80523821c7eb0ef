"""Subwords: text comes back, spans point into what was given, nothing crashes."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from regard.training.data.vocabulary import BEGIN, END, PAD, UNKNOWN, Vocabulary

KNOWN = "WearetingbdIkowhsyEmcpNéDóálS.,?¿1984' "
anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(text=st.text(KNOWN, max_size=40))
def test_known_text_comes_back_with_single_spaces(vocabulary: Vocabulary, text: str) -> None:
    assert vocabulary.decode(vocabulary.encode(text)) == " ".join(text.split())


@given(text=anything)
@example(text="e\u0301 nfd \U0001f600\u200d\U0001f600 \x00\x07 \u2028 </s> <s>")
def test_spans_lie_in_the_given_text_in_order(vocabulary: Vocabulary, text: str) -> None:
    ids, spans = vocabulary.encode_with_spans(text)
    assert len(ids) == len(spans)
    assert spans[-1] == (len(text), len(text))
    last = 0
    for start, end in spans[:-1]:
        assert last <= end <= len(text)
        assert start < end
        last = end


@given(text=st.lists(st.sampled_from([*KNOWN, "e\u0301", "\u2003", "\n"]), max_size=40).map("".join))
@example(text="  e\u0301s  \n un  ")
def test_spans_cover_every_visible_character(vocabulary: Vocabulary, text: str) -> None:
    _, spans = vocabulary.encode_with_spans(text)
    covered = {place for start, end in spans for place in range(start, end)}
    visible = {place for place, each in enumerate(text) if not each.isspace() and not unicodedata.combining(each)}
    assert visible <= covered


@given(text=anything)
def test_only_the_last_id_ends_a_sentence(vocabulary: Vocabulary, text: str) -> None:
    ids = vocabulary.encode(text + "</s> <s> <pad>")
    assert ids[-1] == END
    assert not {PAD, BEGIN, END} & set(ids[:-1])


def test_a_word_of_unseen_letters_is_one_unknown(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode("pan жжж").count(UNKNOWN) == 1


def test_composed_and_decomposed_letters_are_the_same(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode("No se\u0301.") == vocabulary.encode("No s\u00e9.")


def test_digits_stand_alone(vocabulary: Vocabulary) -> None:
    ids, spans = vocabulary.encode_with_spans("Es 1984.")
    assert [end - start for start, end in spans[-6:-2]] == [2, 1, 1, 1]
    assert vocabulary.decode(ids) == "Es 1984."


def test_joined_sentences_have_the_pieces_of_each(vocabulary: Vocabulary) -> None:
    first, second = "No sé.", "¿Dónde está el pan?"
    assert vocabulary.encode(f"{first} {second}") == vocabulary.encode(first)[:-1] + vocabulary.encode(second)


def test_targets_use_the_first_entries(learnt: tuple[Vocabulary, int]) -> None:
    vocabulary, output = learnt
    assert 4 < output < vocabulary.size
    assert max(vocabulary.encode("¿Dónde está el pan? Sabemos el camino. Estamos comiendo.")) < output
    assert max(vocabulary.encode("Where is the way?")) >= output


def test_the_file_alone_gives_the_same_ids(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    vocabulary.save(path)
    text = "We don't know </s> el camino."
    tokenizer = Tokenizer.from_file(str(path))
    assert tokenizer.encode(text).ids == vocabulary.encode(text)
    assert tokenizer.decode(tokenizer.encode("Estamos comiendo pan.").ids[:-1]) == "Estamos comiendo pan."
    assert Vocabulary.load(path).digest == vocabulary.digest


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer"):
        Vocabulary.load(path)

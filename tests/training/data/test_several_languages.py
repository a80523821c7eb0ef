"""Several target languages in one model: the source's last entry says which is wanted, and no text can spell it."""

# torch types tolist only in part.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.training.data.translation_data import (
    BatchConfig,
    Corpus,
    Pair,
    References,
    TranslationData,
    group_references,
)
from regard.training.data.vocabulary import END, Vocabulary

SPANISH = [Pair(f"word{number} one", f"palabra{number} uno", "es") for number in range(4)]
FRENCH = [Pair(f"word{number} one", f"mot{number} un", "fr") for number in range(10)]
PAIRS = [*SPANISH, *FRENCH]


@pytest.fixture(scope="module")
def several() -> tuple[Vocabulary, int]:
    return Vocabulary.train(
        [pair.source for pair in PAIRS], [pair.target for pair in PAIRS], size=80, languages=("es", "fr")
    )


def data(several: tuple[Vocabulary, int], **settings: float) -> TranslationData:
    vocabulary, output = several
    corpus = Corpus(train=PAIRS, valid=PAIRS, test=[], origin="made up")
    return TranslationData(corpus, vocabulary, BatchConfig(**settings), output=output, seed=1)  # pyright: ignore[reportArgumentType]  settings of any type


def rows(found: TranslationData, epoch: int) -> list[tuple[list[int], list[int]]]:
    batches = found.train(epoch)
    return [
        (source[:length], target)
        for batch in (batches[place] for place in range(len(batches)))
        for source, length, target in zip(
            batch.source.tolist(), batch.source_length.tolist(), batch.target_out.tolist(), strict=True
        )
    ]


def test_languages_have_entries_of_their_own_that_are_never_predicted(several: tuple[Vocabulary, int]) -> None:
    vocabulary, output = several
    ends = {vocabulary.end(language) for language in ("es", "fr")}
    assert len(ends) == 2
    assert all(output <= end < vocabulary.size for end in ends)


def test_a_model_of_one_language_ends_its_sources_in_the_ordinary_entry(several: tuple[Vocabulary, int]) -> None:
    assert several[0].end("") == END


def test_a_language_that_the_vocabulary_does_not_know_is_named(several: tuple[Vocabulary, int]) -> None:
    with pytest.raises(ValueError, match="no entry for the target language ko"):
        several[0].end("ko")


@given(text=st.lists(st.sampled_from(["<2es>", "<2fr>", "word1", " ", "<", "2", "es", ">"]), max_size=12).map("".join))
def test_no_text_spells_the_entry_of_a_language(several: tuple[Vocabulary, int], text: str) -> None:
    vocabulary, _ = several
    assert not {vocabulary.end("es"), vocabulary.end("fr")} & set(vocabulary.encode(text))


def test_every_source_ends_in_the_language_of_its_target(several: tuple[Vocabulary, int]) -> None:
    vocabulary, _ = several
    for source, target in rows(data(several), 0):
        french = vocabulary.decode(target).startswith("mot")
        assert source[-1] == vocabulary.end("fr" if french else "es")


def test_only_sources_of_one_language_are_joined(several: tuple[Vocabulary, int]) -> None:
    vocabulary, _ = several
    found = [vocabulary.decode(target) for _, target in rows(data(several, join=1.0), 0)]
    assert any(text.count("palabra") > 1 or text.count("mot") > 1 for text in found)
    assert not [text for text in found if "palabra" in text and "mot" in text]


def test_an_epoch_has_as_many_pairs_of_each_language_as_asked_for(several: tuple[Vocabulary, int]) -> None:
    vocabulary, _ = several
    ends = Counter(source[-1] for source, _ in rows(data(several, pairs=3), 5))
    assert ends == {vocabulary.end("es"): 3, vocabulary.end("fr"): 3}


def test_no_pair_comes_again_before_all_have_come(several: tuple[Vocabulary, int]) -> None:
    vocabulary, _ = several
    found = data(several, pairs=2)
    met = [vocabulary.decode(target) for epoch in range(10) for _, target in rows(found, epoch)]
    assert sorted(text for text in met if text.startswith("palabra")) == sorted(5 * [pair.target for pair in SPANISH])
    assert sorted(text for text in met if text.startswith("mot")) == sorted(2 * [pair.target for pair in FRENCH])


def test_references_are_collected_for_each_language_alone() -> None:
    pairs = [Pair("Go.", "Ve.", "es"), Pair("Go.", "Va.", "fr"), Pair("Go.", "Vaya.", "es")]
    assert group_references(pairs) == [References("Go.", ("Ve.", "Vaya."), "es"), References("Go.", ("Va.",), "fr")]

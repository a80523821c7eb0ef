"""Words are linked by what was looked at most, and test sets are read whole or refused by what is wrong with them."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.loadtest.accuracy.test_sets import group_references, read_alignments, read_parallel, read_tatoeba
from regard.loadtest.accuracy.word_links import link_words, word_of_each, words_of
from regard.scoring.alignments import Links


def links(*pairs: tuple[int, int]) -> Links:
    return frozenset(pairs)


@given(st.lists(st.text(alphabet="aé😀", min_size=1, max_size=5), max_size=8))
def test_words_stand_where_their_bytes_are(words: list[str]) -> None:
    text = "  ".join(words)
    assert [text.encode()[span.start : span.end].decode() for span in words_of(text)] == words


def test_tokens_belong_to_the_word_of_their_last_byte() -> None:
    #       "ab c": with and without the space before it, a space alone, the end of sentence
    words = words_of("ab c")
    assert word_of_each([(0, 1), (1, 2), (2, 4), (2, 3), (3, 4), (0, 0), (4, 4)], words) == (0, 0, 1, 1, 1, None, None)


def test_white_space_at_the_end_belongs_to_no_word() -> None:
    assert word_of_each([(0, 1), (1, 2)], words_of("a ")) == (0, None)


def test_shares_add_up_over_the_pieces_of_a_source_word() -> None:
    # Two pieces of 0.3 outweigh one of 0.4.
    weights = np.array([[0.3, 0.3, 0.4]], dtype=np.float32)
    assert link_words(weights, [0, 0, 1], [0]) == links((0, 0))


def test_shares_average_over_the_pieces_of_a_target_word() -> None:
    weights = np.array([[0.9, 0.1], [0.4, 0.6], [0.0, 1.0]], dtype=np.float32)
    assert link_words(weights, [0, 1], [0, 0, 1]) == links((0, 0), (1, 1))


def test_the_end_of_sentence_is_never_linked() -> None:
    weights = np.array([[0.1, 0.9]], dtype=np.float32)
    assert link_words(weights, [0, None], [0]) == links((0, 0))
    assert link_words(weights, [None, None], [0]) == links()


def test_gold_alignments_are_read_in_both_forms(tmp_path: Path) -> None:
    whole, bare = tmp_path / "whole.tsv", tmp_path / "bare"
    whole.write_text("a b\tx y\t0-0 1?1\n")
    bare.write_text("0-0 1?1\n")
    assert read_alignments(whole) == read_alignments(bare, sources=["a b"], targets=["x y"])


@pytest.mark.parametrize(
    ("content", "said"), [("0-0\n0-0\n", "2 lines of links"), ("a\tb\t0-0\na b\n", "line 2"), ("a\tb\t0:0\n", "line 1")]
)
def test_a_file_that_does_not_fit_is_refused_by_the_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "links"
    path.write_text(content)
    with pytest.raises(ValueError, match=said):
        read_alignments(path, sources=["a"], targets=["b"])


def test_files_of_different_length_are_refused(tmp_path: Path) -> None:
    source, reference = tmp_path / "s", tmp_path / "r"
    source.write_text("a\nb\n")
    reference.write_text("a\n")
    with pytest.raises(ValueError, match="1 lines"):
        read_parallel(source, [reference])


def test_references_of_one_source_are_gathered(tmp_path: Path) -> None:
    (tmp_path / "eng-spa.tsv.gz").write_bytes(gzip.compress(b"Go.\tVe.\nGo.\tVete.\nHi.\tHola.\n"))
    (tmp_path / "eng-spa.split.gz").write_bytes(gzip.compress(b"test\ntest\ntrain\n"))
    pairs = read_tatoeba(tmp_path, "test")
    assert pairs.sources == ("Go.", "Go.")
    assert group_references(pairs).references == (("Ve.", "Vete."),)


def test_pairs_of_other_languages_are_read_by_their_tag(tmp_path: Path) -> None:
    (tmp_path / "eng-deu.tsv.gz").write_bytes(gzip.compress(b"Go.\tGeh.\n"))
    (tmp_path / "eng-deu.split.gz").write_bytes(gzip.compress(b"test\n"))
    assert read_tatoeba(tmp_path, "test", "de").references == (("Geh.",),)
    with pytest.raises(ValueError, match="es, fr, de, not 'it'"):
        read_tatoeba(tmp_path, "test", "it")


def test_missing_data_says_what_is_missing_and_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"eng-spa.tsv.gz is missing.*manythings.*REGARD_DATA"):
        read_tatoeba(tmp_path, "test")

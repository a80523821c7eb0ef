"""Reading and scoring Multi30k, and small letters: as papers on it do."""

import gzip
from pathlib import Path

import pytest

from regard.datasets.lines import read_lines
from regard.training.data.corpora import read_multi30k, read_tatoeba, read_tatoeba_into
from regard.training.data.translation_data import Pair, References
from regard.training.data.vocabulary import Vocabulary
from regard.training.decoding.alignment import read_alignments
from regard.training.decoding.evaluate import score_as_published


def write_sets(folder: Path, **lines: str) -> None:
    (folder / "multi30k").mkdir()
    for name in ("train", "val", "test_2016_flickr", "test_2017_flickr"):
        for side in ("en", "de"):
            text = lines.get(f"{name}_{side}", f"{name} {side}\n")
            (folder / "multi30k" / f"{name}.{side}.gz").write_bytes(gzip.compress(text.encode()))


def test_sets_are_read_by_line_with_their_ends_stripped(tmp_path: Path) -> None:
    write_sets(tmp_path, train_en=" Two\u2028men. \nA dog.\n", train_de="Zwei\tMänner.\u00a0\nEin Hund.\n")
    corpus = read_multi30k(tmp_path)
    assert corpus.train == [Pair("Two\u2028men.", "Zwei Männer."), Pair("A dog.", "Ein Hund.")]
    assert corpus.test == [Pair("test_2016_flickr en", "test_2016_flickr de")]
    assert corpus.further_tests == {"test_2017_flickr": [Pair("test_2017_flickr en", "test_2017_flickr de")]}


def test_sides_of_different_length_are_refused(tmp_path: Path) -> None:
    write_sets(tmp_path, val_de="Ein Hund.\nEin Hund.\n")
    with pytest.raises(ValueError, match="val has 1 English lines, but 2 in de"):
        read_multi30k(tmp_path)


def test_missing_files_are_named_with_where_they_come_from(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"train\.en\.gz is missing.*github\.com/multi30k"):
        read_multi30k(tmp_path)


def test_pairs_of_several_languages_say_which(tmp_path: Path) -> None:
    (tmp_path / "tatoeba").mkdir()
    for name, text in (("spa", "Hola."), ("fra", "Salut.")):
        (tmp_path / "tatoeba" / f"eng-{name}.tsv.gz").write_bytes(gzip.compress(f"Hi.\t{text}\n".encode()))
        (tmp_path / "tatoeba" / f"eng-{name}.split.gz").write_bytes(gzip.compress(b"train\n"))
    corpus = read_tatoeba_into(tmp_path, ("es", "fr"))
    assert corpus.train == [Pair("Hi.", "Hola.", "es"), Pair("Hi.", "Salut.", "fr")]


def test_case_and_spacing_do_not_count_in_published_scores() -> None:
    references = [References("", ("Zwei Männer - jung - sitzen im Freien, auf einer Bank.",))]
    figure = score_as_published(
        ["zwei männer - jung - sitzen im freien , auf einer bank ."], references, "de", test_set="", search=""
    )
    assert figure.value == pytest.approx(100.0)
    wrong = score_as_published(["zwei frauen stehen im freien."], references, "de", test_set="", search="")
    assert wrong.value < 50


def test_small_letters_are_learnt_where_a_recipe_asks_for_them() -> None:
    vocabulary, _ = Vocabulary.train(["Two men."] * 3, ["Zwei Männer."] * 3, size=60, lower=True)
    assert vocabulary.encode("ZWEI MÄNNER.") == vocabulary.encode("zwei männer.")
    assert vocabulary.decode(vocabulary.encode("Zwei Männer.")) == "zwei männer."
    ids, spans = vocabulary.encode_with_spans("ZWEI")
    assert spans[0][0] == 0
    assert spans[-2][1] == 4
    assert len(ids) == len(spans)


def test_alignments_can_be_turned(tmp_path: Path) -> None:
    (tmp_path / "gold.tsv").write_text("ein hund\ta dog barks\t0-0 1-1 1?2\n")
    (pair,) = read_alignments(tmp_path / "gold.tsv", turned=True)
    assert (pair.source, pair.target) == (("a", "dog", "barks"), ("ein", "hund"))
    assert pair.sure == {(0, 0), (1, 1)}
    assert pair.possible == {(0, 0), (1, 1), (2, 1)}


def test_a_third_column_says_who_wrote_a_pair_and_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "eng-spa.tsv.gz").write_bytes(gzip.compress(b"Hi.\tHola.\tCC-BY 2.0 (France)\n"))
    (tmp_path / "eng-spa.split.gz").write_bytes(gzip.compress(b"train\n"))
    assert read_tatoeba(tmp_path, "es").train == [Pair("Hi.", "Hola.")]


def test_a_damaged_archive_is_named_wherever_it_is_damaged(tmp_path: Path) -> None:
    whole = gzip.compress("Größe.\n".encode() * 20)
    path = tmp_path / "text.gz"
    for place in range(10, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"text\.gz (cannot be unpacked|is not UTF-8 text)"):
            read_lines(path)
        path.write_bytes(whole[:place])
        with pytest.raises(ValueError, match=r"text\.gz cannot be unpacked"):
            read_lines(path)

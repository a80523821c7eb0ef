"""Reading pairs and batching them: nothing lost, nothing too large, and clear words about what is missing."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import gzip
from pathlib import Path

import pytest
import torch

from regard.training.data.corpora import read_tatoeba
from regard.training.data.translation_data import (
    BatchConfig,
    Batches,
    Corpus,
    Pair,
    References,
    TranslationData,
    bucket,
    collate,
    group_references,
)
from regard.training.data.vocabulary import BEGIN, END, PAD, UNKNOWN, Vocabulary

PAIRS = [
    Pair("We know the way.", "Sabemos el camino."),
    Pair("I don't know.", "No sé."),
    Pair("It is 1984.", "Es 1984."),
] * 5


def write(folder: Path, lines: str, splits: str) -> None:
    (folder / "tatoeba").mkdir()
    (folder / "tatoeba" / "eng-spa.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "tatoeba" / "eng-spa.split.gz").write_bytes(gzip.compress(splits.encode()))


def data(vocabulary: Vocabulary, config: BatchConfig) -> TranslationData:
    corpus = Corpus(train=PAIRS, valid=PAIRS[:3], test=[], origin="made up")
    return TranslationData(corpus, vocabulary, config, output=vocabulary.size, seed=1)


def texts(vocabulary: Vocabulary, batches: Batches) -> list[tuple[str, str]]:
    rows = [batches[number] for number in range(len(batches))]
    return sorted(
        (vocabulary.decode(source), vocabulary.decode(target))
        for batch in rows
        for source, target in zip(batch.source.tolist(), batch.target_out.tolist(), strict=True)
    )


def test_pairs_go_to_the_split_that_is_written_beside_them(tmp_path: Path) -> None:
    write(tmp_path, "Hi.\tHola.\nGo.\tVe.\nNo.\tNo.\n", "train\ntest\nvalid\n")
    corpus = read_tatoeba(tmp_path, "es")
    assert (corpus.train, corpus.test, corpus.valid) == (
        [("Hi.", "Hola.", "")],
        [("Go.", "Ve.", "")],
        [("No.", "No.", "")],
    )


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    write(tmp_path, "A\u2028b.\tC\x0bd.\n", "train\n")
    assert read_tatoeba(tmp_path, "es").train == [("A\u2028b.", "C\x0bd.", "")]


def test_missing_files_are_named_with_where_they_come_from(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"eng-spa\.tsv\.gz is missing.*manythings.*--data or REGARD_DATA"):
        read_tatoeba(tmp_path, "es")


@pytest.mark.parametrize(
    ("lines", "splits", "message"),
    [
        ("Hi.\tHola.\n", "train\ntest\n", "has 1 lines, but .* has 2"),
        ("Hi.\n", "train\n", "Line 1 of"),
        ("Hi.\tHola.\n", "dev\n", "Line 1 of"),
    ],
)
def test_files_that_disagree_are_refused(tmp_path: Path, lines: str, splits: str, message: str) -> None:
    write(tmp_path, lines, splits)
    with pytest.raises(ValueError, match=message):
        read_tatoeba(tmp_path, "es")


def test_all_targets_of_a_source_are_its_references() -> None:
    pairs = [Pair("Go.", "Ve."), Pair("Hi.", "Hola."), Pair("Go.", "Vaya.")]
    assert group_references(pairs) == [References("Go.", ("Ve.", "Vaya.")), References("Hi.", ("Hola.",))]


def test_targets_are_shifted_by_one_and_padded() -> None:
    batch = collate([([5, 6, END], [7, END]), ([5, END], [7, 8, 9, END])])
    assert batch.source.tolist() == [[5, 6, END], [5, END, PAD]]
    assert batch.source_length.tolist() == [3, 2]
    assert batch.target_in.tolist() == [[BEGIN, 7, PAD, PAD], [BEGIN, 7, 8, 9]]
    assert batch.target_out.tolist() == [[7, END, PAD, PAD], [7, 8, 9, END]]


def test_batches_keep_every_example_within_their_budget() -> None:
    examples = [([5] * (number % 7 + 1), [6] * (number % 5 + 1)) for number in range(60)]
    batches = bucket(examples, 20)
    assert sorted(example for batch in batches for example in batch) == sorted(examples)
    assert all(len(batch) * max(len(side) for pair in batch for side in pair) <= 20 for batch in batches)


def test_an_epoch_has_every_pair_once(vocabulary: Vocabulary) -> None:
    assert texts(vocabulary, data(vocabulary, BatchConfig(tokens=128)).train(0)) == sorted(
        (pair.source, pair.target) for pair in PAIRS
    )


def test_the_same_epoch_is_the_same_and_others_differ(vocabulary: Vocabulary) -> None:
    config = BatchConfig(tokens=128, join=0.3, upper=0.2, plain=0.2)

    def epoch(number: int) -> list[list[int]]:
        batches = data(vocabulary, config).train(number)
        return [row for index in range(len(batches)) for row in batches[index].source.tolist()]

    assert epoch(1) == epoch(1)
    assert epoch(1) != epoch(2)


def test_joined_pairs_keep_all_their_words(vocabulary: Vocabulary) -> None:
    found = texts(vocabulary, data(vocabulary, BatchConfig(tokens=128, join=0.5)).train(0))
    assert len(found) < len(PAIRS)
    assert sorted(" ".join(source for source, _ in found).split()) == sorted(
        " ".join(pair.source for pair in PAIRS).split()
    )


def test_targets_have_only_entries_that_can_be_predicted(learnt: tuple[Vocabulary, int]) -> None:
    vocabulary, output = learnt
    strange = [Pair("Es 1984.", "Where is the way?")]
    assert max(vocabulary.encode(strange[0].target)) >= output
    corpus = Corpus(train=strange, valid=strange, test=[], origin="made up")
    made = TranslationData(corpus, vocabulary, BatchConfig(tokens=128, upper=1.0), output=output, seed=1)
    for batches in (made.train(0), made.valid()):
        assert int(batches[0].target_out.max()) < output
        assert UNKNOWN in batches[0].target_out


def test_validation_is_never_varied(vocabulary: Vocabulary) -> None:
    config = BatchConfig(tokens=128, join=1.0, upper=0.5, plain=0.5)
    assert texts(vocabulary, data(vocabulary, config).valid()) == sorted(
        (pair.source, pair.target) for pair in PAIRS[:3]
    )


def test_pairs_that_are_too_long_are_left_out(vocabulary: Vocabulary) -> None:
    longest = len(vocabulary.encode("No sé."))
    found = texts(vocabulary, data(vocabulary, BatchConfig(tokens=128, longest=longest, join=1.0)).train(0))
    assert all(len(vocabulary.encode(side)) <= longest for pair in found for side in pair)


@pytest.mark.parametrize("settings", [{"join": 1.5}, {"upper": -0.1}, {"tokens": 5}])
def test_impossible_batches_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is "):
        BatchConfig(**settings)  # pyright: ignore[reportArgumentType]  wrong on purpose


def test_rows_of_a_batch_are_whole_numbers(vocabulary: Vocabulary) -> None:
    batch = data(vocabulary, BatchConfig(tokens=128)).valid()[0]
    assert {each.dtype for each in batch} == {torch.int64}

"""Pictures with captions: reading Flickr8k's files, what is said when they are not right, and batches."""

# torch types tolist only in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tests.flickr8k_folder import NAMES, write_flickr8k
from torch import Tensor

from regard.scoring.words import words
from regard.training.data.caption_data import CaptionBatchConfig, CaptionData, plain, read_flickr8k
from regard.training.data.toy_pictures import as_png as encode
from regard.training.data.toy_pictures import draw_square, make_squares
from regard.training.data.vocabulary import BEGIN, END, PAD, Vocabulary


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_flickr8k(tmp_path)


def test_pictures_come_with_their_captions_by_split(data: Path) -> None:
    corpus = read_flickr8k(data)
    assert [picture.name for split in (corpus.train, corpus.valid, corpus.test) for picture in split] == list(NAMES)
    assert corpus.test[0].captions[4] == "A dog 's three.jpg number 4 ."
    assert "non-commercial" in corpus.origin


def test_pictures_are_read_in_the_order_asked_for_out_of_several_tars(data: Path) -> None:
    found = read_flickr8k(data).load(["three.jpg", "one.jpg", "two.jpg"])
    assert list(found) == [b"three.jpg", b"one.jpg", b"two.jpg"]


def test_a_picture_in_no_tar_is_named(data: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"four\.jpg is in none of part-0\.tar, part-1\.tar"):
        list(read_flickr8k(data).load(["one.jpg", "four.jpg"]))


@pytest.mark.parametrize("file", ["captions.txt", "train.txt", "dev.txt", "test.txt"])
def test_a_missing_file_is_named_with_what_to_do(data: Path, file: str) -> None:
    (data / "flickr8k" / file).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{file} is missing.*--data or REGARD_DATA"):
        read_flickr8k(data)


def test_missing_tars_are_an_error_before_any_work(data: Path) -> None:
    for path in (data / "flickr8k" / "images").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r"\*\.tar is missing"):
        read_flickr8k(data)


def test_a_picture_without_captions_is_named(data: Path) -> None:
    (data / "flickr8k" / "dev.txt").write_text("nobody.jpg\n")
    with pytest.raises(ValueError, match=r"names nobody\.jpg"):
        read_flickr8k(data)


def test_a_line_that_is_no_caption_is_named(data: Path) -> None:
    path = data / "flickr8k" / "captions.txt"
    path.write_text(path.read_text() + "one.jpg#5 no tab\n")
    with pytest.raises(ValueError, match="Line 16"):
        read_flickr8k(data)


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A black dog runs .", "a black dog runs"),
        ("The dog 's t-shirt , wet !", "the dog's t-shirt wet"),
        ('" Don\'t " says a sign', "don't says a sign"),
        ("Dogs - two of them - play ; 3 birds", "dogs two of them play 3 birds"),
        (" . ", ""),
    ],
)
def test_captions_are_small_and_without_punctuation(caption: str, expected: str) -> None:
    assert plain(caption) == expected


def test_a_plain_caption_has_the_same_words() -> None:
    assert words(plain("The dog 's T-shirt , wet !")) == words("The dog 's T-shirt , wet !")


def look(names: Sequence[str]) -> Tensor:
    """A map that tells which picture it is of."""
    return torch.tensor([[[float(name.rpartition("-")[2])]] for name in names])


@pytest.fixture(scope="module")
def squares() -> tuple[CaptionData, Vocabulary]:
    corpus = make_squares(pictures=80)
    captions = [plain(caption) for picture in corpus.train for caption in picture.captions]
    vocabulary, output = Vocabulary.train([], captions, size=64, lower=True)
    config = CaptionBatchConfig(pictures=7, captions=2)
    return CaptionData(corpus, vocabulary, config, look, output=output, seed=1), vocabulary


def test_the_captions_of_a_picture_follow_each_other(squares: tuple[CaptionData, Vocabulary]) -> None:
    data, vocabulary = squares
    captions = {picture.name: plain(picture.captions[0]) for picture in make_squares(pictures=80).train}
    batch = data.train(0)[0]
    assert len(batch.target_in) == 2 * len(batch.source)
    for row, target in enumerate(batch.target_out):
        name = f"square-1-{int(batch.source[row // 2, 0, 0])}"
        assert vocabulary.decode(target.tolist()) == captions[name]


def test_targets_begin_with_the_beginning_and_end_with_the_end(squares: tuple[CaptionData, Vocabulary]) -> None:
    for index in range(3):
        batch = squares[0].train(1)[index]
        assert (batch.target_in[:, 0] == BEGIN).all()
        real = (batch.target_out != PAD).sum(1)
        assert (batch.target_out.gather(1, real[:, None] - 1) == END).all()
        assert torch.equal(
            batch.target_in[:, 1:][batch.target_out[:, 1:] != PAD],
            batch.target_out[:, :-1][batch.target_out[:, 1:] != PAD],
        )


def test_an_epoch_has_every_picture_once_and_can_be_repeated(squares: tuple[CaptionData, Vocabulary]) -> None:
    def order(epoch: int) -> list[float]:
        batches = squares[0].train(epoch)
        return [value for index in range(len(batches)) for value in batches[index].source.flatten().tolist()]

    assert sorted(order(0)) == [float(number) for number in range(20, 80)]
    assert order(0) == order(0) != order(1)


def test_a_caption_too_long_is_cut_and_still_ends() -> None:
    corpus = make_squares(pictures=16)
    vocabulary, output = Vocabulary.train([], [plain(picture.captions[0]) for picture in corpus.train], size=64)
    config = CaptionBatchConfig(captions=1, longest=3)
    batch = CaptionData(corpus, vocabulary, config, look, output=output, seed=1).valid()[0]
    assert batch.target_out.shape[1] == 3
    assert (batch.target_out[:, 2] == END).all()


def test_made_up_pictures_are_what_their_captions_say() -> None:
    pixels = draw_square("red", 0, 2, ground=100)
    assert pixels[0, 23].tolist() == [230, 30, 30]
    assert (pixels[8:] == 100).all()
    assert encode(pixels)[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", ["pictures", "captions", "longest"])
def test_a_batch_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        CaptionBatchConfig(**{name: 0})

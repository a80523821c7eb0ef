"""Pictures with captions are read in both forms, and what is missing or wrong about them is named."""

from pathlib import Path

import pytest
from tests.flickr8k_folder import write_flickr8k

from regard.loadtest.accuracy.picture_sets import read_captions, read_flickr8k


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_flickr8k(tmp_path)


@pytest.mark.parametrize(("split", "name"), [("train", "one.jpg"), ("valid", "two.jpg"), ("test", "three.jpg")])
def test_a_split_has_its_pictures_with_all_their_captions(data: Path, split: str, name: str) -> None:
    for folder in (data, data / "flickr8k"):
        found = read_flickr8k(folder, split)
        [picture] = found.pictures
        assert picture.name == name
        assert picture.captions[4] == f"A dog 's {name} number 4 ."
        assert found.read(name) == name.encode()
        assert found.published == (split == "test")


def test_a_part_of_the_test_split_is_told_as_such_and_not_compared_with_the_paper(data: Path) -> None:
    (data / "flickr8k" / "test.txt").write_text("three.jpg\none.jpg\n")
    found = read_flickr8k(data, "test")
    assert found.first(2) == found
    assert not found.first(1).published
    assert "the first 1 of 2" in found.first(1).name


@pytest.mark.parametrize("file", ["captions.txt", "test.txt", "images/part-0.tar"])
def test_missing_data_says_what_is_missing_and_where_to_get_it(data: Path, file: str) -> None:
    for path in (data / "flickr8k").glob(file.replace("0", "*")):
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r"is missing.*Hodosh.*REGARD_DATA"):
        read_flickr8k(data, "test")


def test_files_that_disagree_are_refused(data: Path) -> None:
    listing, captions = data / "flickr8k" / "test.txt", data / "flickr8k" / "captions.txt"
    listing.write_text("four.jpg\n")
    with pytest.raises(ValueError, match=r"names four\.jpg, but"):
        read_flickr8k(data, "test")
    captions.write_text(captions.read_text() + "four.jpg#0\tA dog .\n")
    with pytest.raises(FileNotFoundError, match=r"four\.jpg is in none of part-0\.tar, part-1\.tar"):
        read_flickr8k(data, "test")
    captions.write_text("four.jpg#0 A dog .\n")
    with pytest.raises(ValueError, match="Line 1 of"):
        read_flickr8k(data, "test")
    with pytest.raises(ValueError, match="no split 'tset'"):
        read_flickr8k(data, "tset")


def test_a_file_of_captions_gathers_those_of_a_picture_and_finds_it_beside_itself(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"bytes")
    path = tmp_path / "mine.tsv"
    path.write_text("a.png\tA dog.\nb.png\tA cat.\na.png\tThe dog.\n")
    found = read_captions(path)
    assert [tuple(picture) for picture in found.pictures] == [
        ("a.png", ("A dog.", "The dog.")),
        ("b.png", ("A cat.",)),
    ]
    assert found.read("a.png") == b"bytes"
    assert not found.published


@pytest.mark.parametrize("line", ["a.png A dog.", "a.png\t ", "\tA dog.", ""])
def test_a_line_of_another_form_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(f"a.png\tA dog.\n{line}\n")
    with pytest.raises(ValueError, match="line 2 of"):
        read_captions(path)

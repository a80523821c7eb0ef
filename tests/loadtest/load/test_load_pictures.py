"""The pictures of a load: drawn ones of usual sizes or those of a folder, the same for the same seed."""

import io
from pathlib import Path

import pytest
from PIL import Image

from regard.loadtest.load.pictures import MOST, Pictures, draw_scene


def picture(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, format="PNG")
    return buffer.getvalue()


def test_drawn_pictures_are_jpeg_files_of_their_size_and_of_about_a_photographs_bytes() -> None:
    content = draw_scene(320, 240, seed="1")
    read = Image.open(io.BytesIO(content))
    assert (read.format, read.size) == ("JPEG", (320, 240))
    assert 0.1 < len(content) / (320 * 240) < 0.5


def test_small_pictures_are_small_and_the_same_for_a_seed() -> None:
    found = Pictures("", seed=1).of_size("small")
    assert {Image.open(io.BytesIO(content)).size for content in found} == {(224, 224)}
    assert len(set(found)) == len(found)
    assert draw_scene.__wrapped__(224, 224, seed="1/0") == found[0]  # drawn again, and not remembered
    assert Pictures("", seed=2).of_size("small") != found


def test_a_folder_gives_all_its_pictures_or_those_of_a_size(tmp_path: Path) -> None:
    small, medium = picture(10, 10), picture(400, 400)
    (tmp_path / "a.png").write_bytes(small)
    (tmp_path / "b.png").write_bytes(medium)
    (tmp_path / "c.jpg").write_bytes(b"no picture at all")
    found = Pictures(str(tmp_path), seed=1)
    assert found.of_size("any") == [small, medium, b"no picture at all"]
    assert found.of_size("medium") == [medium]


def test_of_a_folder_with_very_many_some_are_taken(tmp_path: Path) -> None:
    for number in range(MOST + 1):
        (tmp_path / f"{number}.png").write_bytes(b"%d" % number)
    found = Pictures(str(tmp_path), seed=1).of_size("any")
    assert len(set(found)) == MOST
    assert Pictures(str(tmp_path), seed=1).of_size("any") == found


def test_a_folder_without_fitting_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no picture in this directory"):
        Pictures(str(tmp_path), seed=1).of_size("any")
    (tmp_path / "a.png").write_bytes(picture(10, 10))
    with pytest.raises(ValueError, match=r"0\.1 to 1 million pixels, as size 'medium' asks"):
        Pictures(str(tmp_path), seed=1).of_size("medium")
    with pytest.raises(ValueError, match="is no folder"):
        Pictures(str(tmp_path / "a.png"), seed=1).of_size("any")

"""Pictures are found in the order in which a person expects them; overlays get names that lose nothing."""

import os
from pathlib import Path

import pytest

import regard.client.batching.image_files
from regard.client.batching.image_files import ImageFile, find_images, read_image
from regard.client.drawing.overlay_files import overlay_paths


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def found(root: Path, *arguments: str, recursive: bool = False) -> list[str]:
    files = find_images([str(root / each) for each in arguments], recursive=recursive).files
    return [str(Path(each.name).relative_to(root)) for each in files]


def test_a_directory_stands_for_its_pictures_sorted(tmp_path: Path) -> None:
    touch(tmp_path, "b.JPG", "a.png", "c.tiff", "notes.txt", ".hidden.png", "._b.JPG", "sub/d.png")
    assert found(tmp_path, ".") == ["a.png", "b.JPG", "c.tiff"]


def test_directories_below_are_taken_if_asked_for(tmp_path: Path) -> None:
    touch(tmp_path, "b.jpg", "sub/a.png", "another/z.gif", ".cache/x.png")
    assert found(tmp_path, ".", recursive=True) == ["b.jpg", "another/z.gif", "sub/a.png"]


def test_arguments_keep_their_order_and_files_any_name(tmp_path: Path) -> None:
    touch(tmp_path, "z", "sub/a.png", ".a.png")
    assert found(tmp_path, "z", "sub", ".a.png", "none.jpg") == ["z", "sub/a.png", ".a.png", "none.jpg"]


def test_a_pipe_in_a_directory_is_a_problem_and_not_waited_for(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg")
    os.mkfifo(tmp_path / "b.jpg")
    (tmp_path / "c.jpg").symlink_to(tmp_path / "gone.jpg")
    images = find_images([str(tmp_path)], recursive=False)
    assert [Path(each.name).name for each in images.files] == ["a.jpg"]
    assert [problem.split(": ")[1] for problem in images.problems] == ["not a file, or a link to one that is gone"] * 2


def test_a_directory_without_pictures_is_a_problem(tmp_path: Path) -> None:
    touch(tmp_path, "sub/a.png")
    problems = find_images([str(tmp_path)], recursive=False).problems
    assert len(problems) == 1
    assert "no picture in this directory (.jpg .jpeg" in problems[0]


def test_a_file_that_no_message_could_hold_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.client.batching.image_files, "MAX_MESSAGE_BYTES", 10)
    touch(tmp_path, "a.png")
    assert read_image(tmp_path / "a.png") == b"x"
    (tmp_path / "a.png").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than the 10 bytes"):
        read_image(tmp_path / "a.png")


def test_a_device_without_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.client.batching.image_files, "MAX_MESSAGE_BYTES", 1000)
    with pytest.raises(OSError, match="larger than"):
        ImageFile(name="/dev/zero", place=Path("zero")).read()


def paths(out: Path, root: Path, *arguments: str, single: bool = False) -> list[str]:
    files = find_images([str(root / each) for each in arguments], recursive=True).files
    return [str(path.relative_to(out)) for path in overlay_paths(out, files, single=single)]


def test_overlays_lie_as_their_pictures_do(tmp_path: Path) -> None:
    touch(tmp_path, "in/red.jpg", "in/dogs/red.jpg")
    assert paths(tmp_path / "out", tmp_path, "in") == ["red.png", "dogs/red.png"]


def test_no_two_overlays_share_a_name(tmp_path: Path) -> None:
    touch(tmp_path, "a/red.jpg", "a/red.png", "b/RED.gif", "b/red-2.jpg")
    names = paths(tmp_path / "out", tmp_path, "a", "b")
    assert names == ["red.png", "red-2.png", "RED-3.png", "red-2-2.png"]
    assert len({name.casefold() for name in names}) == 4


def test_one_picture_may_go_into_a_file_or_a_directory(tmp_path: Path) -> None:
    files = find_images([str(tmp_path / "a.jpg")], recursive=False).files
    assert overlay_paths(tmp_path / "slide.PDF", files, single=True) == (tmp_path / "slide.PDF",)
    assert overlay_paths(tmp_path / "out", files, single=True) == (tmp_path / "out" / "a.png",)


@pytest.mark.parametrize(
    ("out", "arguments", "single", "message"),
    [
        ("slide.png", ["in"], False, "is one file"),
        ("slide.jpg", ["in/a.png"], True, r"\.png, \.svg, \.pdf"),
        ("in/notes.txt", ["in/a.png"], True, r"\.png, \.svg, \.pdf"),
        ("in/a.png", ["in/a.png"], True, "one of the pictures"),
        ("in/sub/../a.png", ["in/a.png"], True, "one of the pictures"),
        ("in", ["in/a.png"], True, "one of the pictures"),
        ("in", ["in"], False, "one of the pictures"),
        ("in", ["in/b.jpg", "in/c.jpg"], False, "among the pictures"),
    ],
)
def test_no_picture_is_overwritten(tmp_path: Path, out: str, arguments: list[str], single: bool, message: str) -> None:
    touch(tmp_path, "in/a.png", "in/b.jpg", "in/c.jpg", "in/notes.txt", "in/sub/d.jpg")
    files = find_images([str(tmp_path / each) for each in arguments], recursive=False).files
    with pytest.raises(ValueError, match=message):
        overlay_paths(tmp_path / out, files, single=single)

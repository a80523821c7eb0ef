"""Files and folders appear whole or not at all, and nothing is left beside them."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.atomic import replace_link, replacing, replacing_folder, write_bytes, write_text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_text_is_written_as_it_is(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "file", text)
    assert (tmp_path / "file").read_bytes() == text.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with replacing(file) as partial:
        partial.write_text("new")
        assert file.read_text() == "old"
        assert partial.parent == tmp_path
        assert partial.name.startswith(".")
    assert file.read_text() == "new"


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_failed_write_leaves_the_old_file_alone(tmp_path: Path, problem: type[BaseException]) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def write_half() -> None:
        with replacing(file) as partial:
            partial.write_text("half")
            raise problem

    with pytest.raises(problem):
        write_half()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "old"}


def test_content_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        # Of the file itself, while its final name is not there yet.
        if not (tmp_path / "file").exists():
            flushed.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    write_bytes(tmp_path / "file", b"12345")
    assert flushed == [5]


def test_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o640)
    write_text(file, "new")
    assert file.stat().st_mode & 0o777 == 0o640


def test_new_file_has_the_mode_that_any_other_new_file_has(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_text(tmp_path / "file", "new")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_folder_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name in ("old", "new"):
        with replacing_folder(folder) as partial:
            (partial / name).write_text(name)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["folder", "folder/new"]


def test_failed_folder_leaves_the_old_one_alone(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").touch()

    def write_half() -> None:
        with replacing_folder(folder) as partial:
            (partial / "new").touch()
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        write_half()
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["folder", "folder/old"]


def test_link_is_turned_in_one_step(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        replace_link(tmp_path / "best", name)
        assert (tmp_path / "best").readlink() == Path(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "one", "two"]


def test_a_folder_that_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with replacing_folder(tmp_path / "link") as partial:
        (partial / "new").touch()
    assert (tmp_path / "link").readlink() == Path("real")
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_the_mode_of_a_file_is_put_on_what_was_written_and_not_before(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o444)
    with replacing(file) as partial:
        assert partial.stat().st_mode & 0o200
        partial.write_text("new")
    assert file.stat().st_mode & 0o777 == 0o444
    assert file.read_text() == "new"

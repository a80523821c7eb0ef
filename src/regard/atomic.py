"""Writes files and folders that appear whole or not at all, even if the process or the machine dies meanwhile.

What is written lies under a hidden name beside its target, is flushed to disk and then renamed. A reader of a file sees
the old content or the new one. A folder that replaces another is absent for the moment between two renames; a process
killed just then leaves the old one under a hidden name. Hidden names go away on any exception.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text as it is, without translating line ends. Raises OSError."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes. Raises OSError."""
    with replacing(path) as partial:
        partial.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield an empty file beside path that takes its place when the block ends without an exception.

    The mode of an existing file is kept, and so is a link: the file that it leads to is replaced. The folder must
    exist. Raises OSError.
    """
    path = path.resolve()
    partial = _beside(path)
    try:
        partial.touch(exist_ok=False)
        yield partial
        _flush(partial)
        if path.exists():  # afterwards, so that a read-only file can be replaced
            partial.chmod(path.stat().st_mode & 0o7777)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    _flush(path.parent)


@contextmanager
def replacing_folder(folder: Path) -> Generator[Path]:
    """Yield an empty folder beside folder that takes its place when the block ends without an exception.

    An old folder is moved aside first and put back if the new one cannot be renamed. Where folder is a link, what it
    leads to is replaced. Raises OSError.
    """
    folder = folder.resolve()
    partial = _beside(folder)
    partial.mkdir()
    try:
        yield partial
        for path in (*partial.rglob("*"), partial):
            _flush(path)
        _swap(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_link(link: Path, target: str) -> None:
    """Make link, which may exist, a symbolic link to target in one step. Raises OSError."""
    partial = _beside(link)
    try:
        partial.symlink_to(target)
        partial.replace(link)
    finally:
        partial.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    # The leading dot hides it from whoever lists the folder meanwhile: a server looking for versions of a model.
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")


def _swap(partial: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.old-{partial.name.rsplit('-', 1)[1]}")
    moved = folder.exists()
    if moved:
        folder.rename(old)
    try:
        partial.rename(folder)
    except BaseException:
        if moved:
            old.rename(folder)
        raise
    _flush(folder.parent)
    if moved:
        shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

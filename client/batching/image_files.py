"""Reads pictures as the bytes of their files, and finds them in directories.

Does not know what is in the bytes: a server tells what is a picture.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.client.channel import MAX_MESSAGE_BYTES

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
STDIN = "-"
_STDIN = 0  # its file descriptor

ImageSource = bytes | bytearray | memoryview | str | os.PathLike[str]
"""A picture: the bytes of its file, or the path of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """A picture that was asked for.

    Attributes:
        name: as a person would write it; `-` is stdin.
        place: its path below the directory in which it was found, or its file name; where what is made of it belongs.
    """

    name: str
    place: Path

    def read(self) -> bytes:
        """Return its bytes.

        Raises:
            OSError: it cannot be read, or no message could hold it.
        """
        return _read(_STDIN if self.name == STDIN else self.name, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What arguments stand for.

    Attributes:
        files: the pictures, in order.
        problems: sentences about directories in which there are none, or which cannot be read.
    """

    files: tuple[ImageFile, ...]
    problems: tuple[str, ...]


def read_image(source: ImageSource) -> bytes:
    """Return the bytes of a picture.

    Raises:
        OSError: its file cannot be read, or no message could hold it.
        TypeError: it is neither bytes nor a path.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    return _read(source, os.fspath(source))


def image_sources(images: Iterable[ImageSource]) -> list[ImageSource]:
    """Return the pictures as a list.

    Raises:
        TypeError: they are a single picture.
    """
    if isinstance(images, bytes | bytearray | memoryview | str | os.PathLike):
        raise TypeError("images is a list of bytes or paths; for one picture write [image]")
    return list(images)


def find_images(arguments: Iterable[str], *, recursive: bool) -> Found:
    """Return the files that arguments name, and for a directory the pictures in it, told by their suffix and sorted.

    Hidden files are left out, and directories below it if not `recursive`.
    """
    files: list[ImageFile] = []
    problems: list[str] = []
    for argument in arguments:
        if argument != STDIN and Path(argument).is_dir():
            before = len(files) + len(problems)
            files += _pictures_in(Path(argument), recursive, problems)
            if before == len(files) + len(problems):
                problems.append(f"{argument}: no picture in this directory ({' '.join(SUFFIXES)})")
        else:
            files.append(ImageFile(name=argument, place=Path("stdin" if argument == STDIN else Path(argument).name)))
    return Found(files=tuple(files), problems=tuple(problems))


def _pictures_in(directory: Path, recursive: bool, problems: list[str]) -> Iterator[ImageFile]:
    def tell(error: OSError) -> None:
        problems.append(f"{error.filename}: {error.strerror}")

    for folder, below, names in os.walk(directory, onerror=tell):
        below[:] = sorted(name for name in below if not name.startswith(".")) if recursive else []
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                path = Path(folder, name)
                # Reading a pipe or a device would wait for somebody who may never write.
                if path.is_file():
                    yield ImageFile(name=str(path), place=path.relative_to(directory))
                else:
                    problems.append(f"{path}: not a file, or a link to one that is gone")


def _read(file: int | str | os.PathLike[str], name: str) -> bytes:
    # Unbuffered: one thread may wait here for a pipe, and must not keep a lock that the end of the process needs.
    with open(file, "rb", buffering=0, closefd=not isinstance(file, int)) as stream:
        parts: list[bytes] = []
        size = 0
        # A pipe has no size to ask for, and a device no end.
        while size <= MAX_MESSAGE_BYTES and (part := stream.read(MAX_MESSAGE_BYTES + 1 - size)):
            parts.append(part)
            size += len(part)
    if size > MAX_MESSAGE_BYTES:
        raise OSError(errno.EFBIG, f"larger than the {MAX_MESSAGE_BYTES:,} bytes that a message holds", name)
    return b"".join(parts)

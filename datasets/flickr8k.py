"""Reads Flickr8k, photographs with five captions each: Hodosh, Young and Hockenmaier 2013.

It does not know what is done with them, and fetches nothing: where data is missing it says what and where to get it.
"""

import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.datasets.lines import read_lines

ORIGIN = "Flickr8k (Hodosh, Young and Hockenmaier 2013), for research and education, non-commercial"
SPLITS = ("train", "dev", "test")


class Described(NamedTuple):
    """A picture and what people say of it."""

    name: str
    captions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flickr8k:
    """Pictures with captions.

    Attributes:
        splits: pictures by split, those that were asked for.
        tars: the files that hold the pictures.
    """

    splits: Mapping[str, Sequence[Described]]
    tars: Sequence[Path]


def read_flickr8k(folder: Path, splits: Sequence[str] = SPLITS, *, hint: str) -> Flickr8k:
    """Read captions and splits from a folder or the folder flickr8k/ in it.

    hint says how the folder is named to whoever asks. Raises FileNotFoundError that says what is missing and where it
    comes from, ValueError for files that disagree.
    """
    inner = folder / "flickr8k"
    folder = inner if inner.is_dir() else folder
    listing = folder / "captions.txt"
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(listing, hint), start=1):
        key, tab, caption = line.partition("\t")
        if not tab:
            raise ValueError(f"Line {number} of {listing} is not PICTURE#NUMBER<TAB>CAPTION.")
        captions.setdefault(key.rpartition("#")[0], []).append(caption)
    described: dict[str, list[Described]] = {}
    for split in splits:
        names = _lines(folder / f"{split}.txt", hint)
        for name in names:
            if name not in captions:
                raise ValueError(f"{folder / split}.txt names {name}, but captions.txt says nothing of it.")
        described[split] = [Described(name, tuple(captions[name])) for name in names]
    tars = sorted((folder / "images").glob("*.tar"))
    if not tars:
        raise _missing(folder / "images/*.tar", hint)
    return Flickr8k(splits=described, tars=tars)


def picture_reader(tars: Sequence[Path], names: Sequence[str]) -> Callable[[str], bytes]:
    """Return what reads a picture's file, by its name, out of several tars, which are listed once.

    Raises FileNotFoundError if one of these names is in none of them.
    """
    places: dict[str, tuple[Path, int, int]] = {}
    for path in tars:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile():
                    places[member.name.rpartition("/")[2]] = (path, member.offset_data, member.size)
    for name in names:
        if name not in places:
            raise FileNotFoundError(f"{name} is in none of {', '.join(path.name for path in tars)}.")

    def read(name: str) -> bytes:
        path, start, size = places[name]
        with path.open("rb") as file:
            file.seek(start)
            return file.read(size)

    return read


def _lines(path: Path, hint: str) -> tuple[str, ...]:
    if not path.is_file():
        raise _missing(path, hint)
    return read_lines(path)


def _missing(path: Path, hint: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"{path} is missing. It is part of Flickr8k (Hodosh, Young and Hockenmaier 2013; for research and education, "
        f"non-commercial): captions.txt with lines PICTURE#NUMBER<TAB>CAPTION, the lists train.txt, dev.txt and "
        f"test.txt, and the pictures in images/*.tar. {hint}"
    )

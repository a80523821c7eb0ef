"""Reads pictures with captions: Flickr8k as it comes, or a file of picture names and captions.

It does not know what is done with them, and fetches nothing: where data is missing it says what and where to get it.
"""

import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from loadtest.test_sets import read_lines

FLICKR8K = (
    "{path} is missing. It is part of Flickr8k (Hodosh, Young and Hockenmaier 2013; for research and education, "
    "non-commercial): captions.txt with lines IMAGE#NUMBER<TAB>CAPTION, the lists train.txt, dev.txt and test.txt, and "
    "the pictures in images/*.tar. Name the folder by --flickr8k, or the folder above it by REGARD_DATA."
)
SPLITS = {"train": "train", "valid": "dev", "dev": "dev", "test": "test"}


class Described(NamedTuple):
    """A picture and what people say of it."""

    name: str
    captions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSet:
    """Pictures with captions.

    Attributes:
        name: for the table.
        pictures: in order.
        read: the bytes of a picture by its name; raises OSError.
        published: whether the paper's figures are of this very set.
    """

    name: str
    pictures: tuple[Described, ...]
    read: Callable[[str], bytes]
    published: bool = False

    def first(self, count: int | None) -> "PictureSet":
        """The first pictures only."""
        if count is None or count >= len(self.pictures):
            return self
        name = f"{self.name}, the first {count} of {len(self.pictures)} pictures"
        return replace(self, name=name, pictures=self.pictures[:count], published=False)


def read_flickr8k(folder: Path, split: str) -> PictureSet:
    """A split of Flickr8k with all captions of each picture.

    Raises FileNotFoundError that says what is missing and where it comes from, ValueError for files that disagree.
    """
    if split not in SPLITS:
        raise ValueError(f"Flickr8k has no split {split!r}; it has train, valid and test")
    inner = folder / "flickr8k"
    folder = inner if inner.is_dir() else folder
    tars = sorted((folder / "images").glob("*.tar"))
    listing = folder / f"{SPLITS[split]}.txt"
    for path in (folder / "captions.txt", listing):
        if not path.is_file():
            raise FileNotFoundError(FLICKR8K.format(path=path))
    if not tars:
        raise FileNotFoundError(FLICKR8K.format(path=folder / "images/*.tar"))
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(folder / "captions.txt"), start=1):
        key, tab, caption = line.partition("\t")
        if not tab:
            raise ValueError(f"line {number} of {folder / 'captions.txt'} is not IMAGE#NUMBER<TAB>CAPTION")
        captions.setdefault(key.rpartition("#")[0], []).append(caption)
    names = read_lines(listing)
    for name in names:
        if name not in captions:
            raise ValueError(f"{listing} names {name}, of which captions.txt says nothing")
    return PictureSet(
        name=f"Flickr8k {split}",
        pictures=tuple(Described(name, tuple(captions[name])) for name in names),
        read=_reader(tars, names),
        published=split == "test",
    )


def read_captions(path: Path) -> PictureSet:
    """Lines of PICTURE<TAB>CAPTION, as many for a picture as it has captions; names count from the file's folder.

    Raises FileNotFoundError, or ValueError that names the line.
    """
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        picture, tab, caption = line.partition("\t")
        if not (tab and picture.strip() and caption.strip()):
            raise ValueError(f"line {number} of {path} is not PICTURE<TAB>CAPTION")
        captions.setdefault(picture.strip(), []).append(caption)
    return PictureSet(
        name=path.name,
        pictures=tuple(Described(name, tuple(found)) for name, found in captions.items()),
        read=lambda name: (path.parent / name).read_bytes(),
    )


def _reader(tars: Sequence[Path], names: Sequence[str]) -> Callable[[str], bytes]:
    """Raises FileNotFoundError for a picture that is in no tar."""
    places: dict[str, tuple[Path, int, int]] = {}
    for path in tars:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile():
                    places[member.name.rpartition("/")[2]] = (path, member.offset_data, member.size)
    for name in names:
        if name not in places:
            raise FileNotFoundError(f"{name} is in none of {', '.join(tar.name for tar in tars)}")

    def read(name: str) -> bytes:
        path, start, size = places[name]
        with path.open("rb") as file:
            file.seek(start)
            return file.read(size)

    return read

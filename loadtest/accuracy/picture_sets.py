"""Reads pictures with captions: Flickr8k as it comes, or a file of picture names and captions.

It does not know what is done with them, and fetches nothing: where data is missing it says what and where to get it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from regard.datasets import flickr8k
from regard.datasets.flickr8k import Described, picture_reader
from regard.datasets.lines import read_lines

_SPLITS = {"train": "train", "valid": "dev", "dev": "dev", "test": "test"}


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
    if split not in _SPLITS:
        raise ValueError(f"Flickr8k has no split {split!r}; it has train, valid and test")
    hint = "Name the folder by --flickr8k, or the folder above it by REGARD_DATA."
    found = flickr8k.read_flickr8k(folder, [_SPLITS[split]], hint=hint)
    pictures = tuple(found.splits[_SPLITS[split]])
    return PictureSet(
        name=f"Flickr8k {split}",
        pictures=pictures,
        read=picture_reader(found.tars, [picture.name for picture in pictures]),
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

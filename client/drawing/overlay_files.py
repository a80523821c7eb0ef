"""Names the files that overlays are written into, so that no two share one and no picture is lost.

Does not draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.client.batching.image_files import STDIN, ImageFile
from regard.client.batching.image_files import SUFFIXES as PICTURES

SUFFIXES = (".png", ".svg", ".pdf")


def overlay_paths(out: Path, files: Sequence[ImageFile], *, single: bool) -> tuple[Path, ...]:
    """Return one path for each picture.

    A name with a suffix of a picture is the file itself, for a single picture. Any other is a directory, in which
    `dogs/red.jpg`, found below a directory that was asked for, becomes `dogs/red.png`; where that name is taken by an
    earlier picture it becomes `dogs/red-2.png`.

    Args:
        out: where to write.
        files: the pictures.
        single: whether one picture was asked for, and no directory.

    Raises:
        ValueError: a file was named for several pictures, or one of another kind, or an overlay would lie among the
            pictures.
    """
    if not out.is_dir() and (out.exists() or out.suffix.lower() in {*SUFFIXES, *PICTURES}):
        if not single:
            raise ValueError(f"{str(out)!r} is one file; for several pictures name a directory")
        if out.suffix.lower() not in SUFFIXES:
            raise ValueError(f"a slide is a {', '.join(SUFFIXES)} file, not {out.name!r}")
        paths = [out]
    else:
        paths = _distinct([out / file.place.with_suffix(".png") for file in files])
    pictures = {Path(file.name).resolve() for file in files if file.name != STDIN}
    for path in paths:
        if path.resolve() in pictures:
            raise ValueError(f"{str(path)!r} is one of the pictures; name another place")
    if not single:
        folders = {picture.parent for picture in pictures}
        for folder in sorted({path.parent for path in paths}):
            if folder.resolve() in folders:
                raise ValueError(f"in {str(folder)!r} overlays would lie among the pictures; name another directory")
    return tuple(paths)


def _distinct(paths: Sequence[Path]) -> list[Path]:
    taken: set[str] = set()
    distinct: list[Path] = []
    for path in paths:
        free, number = path, 1
        while str(free).casefold() in taken:
            number += 1
            free = path.with_stem(f"{path.stem}-{number}")
        taken.add(str(free).casefold())
        distinct.append(free)
    return distinct

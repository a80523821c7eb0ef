"""A folder laid out as Flickr8k is, with three pictures that are none, for tests of those who read it.

It knows no reader.
"""

import io
import tarfile
from pathlib import Path

NAMES = ("one.jpg", "two.jpg", "three.jpg")


def write_flickr8k(data: Path) -> Path:
    """Write DATA/flickr8k with a picture in each split, in two tars, and return DATA."""
    folder = data / "flickr8k"
    (folder / "images").mkdir(parents=True)
    lines = [f"{name}#{number}\tA dog 's {name} number {number} ." for name in NAMES for number in range(5)]
    (folder / "captions.txt").write_text("\n".join(lines) + "\n")
    for split, name in zip(("train", "dev", "test"), NAMES, strict=True):
        (folder / f"{split}.txt").write_text(name + "\n")
    for number, names in enumerate((NAMES[:2], NAMES[2:])):
        with tarfile.open(folder / "images" / f"part-{number}.tar", "w") as tar:
            for name in names:
                content = name.encode()
                member = tarfile.TarInfo(f"images/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return data

"""Reads Tatoeba's pairs with English, each with the split that it belongs to.

It does not know what is done with them, and fetches nothing: where data is missing it says what and where to get it.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeGuard

from regard.datasets.lines import read_lines

Split = Literal["train", "valid", "test"]

SPLITS: tuple[Split, ...] = ("train", "valid", "test")
ORIGIN = "manythings.org/anki and tatoeba.org, CC BY 2.0 FR"
# ISO 639-3, as the files are named, by BCP 47.
LANGUAGES: Mapping[str, str] = MappingProxyType({"es": "spa", "fr": "fra", "de": "deu"})


class TatoebaPair(NamedTuple):
    """An English sentence and a translation."""

    english: str
    other: str
    split: Split


def read_tatoeba(folder: Path, language: str, *, hint: str) -> list[TatoebaPair]:
    """Read the pairs of English and another language (BCP 47) from a folder or the folder tatoeba/ in it.

    hint says how the folder is named to whoever asks. Raises FileNotFoundError that says what is missing and where it
    comes from, ValueError for another language and for files that disagree.
    """
    if language not in LANGUAGES:
        raise ValueError(f"Tatoeba is read for {', '.join(LANGUAGES)}, not {language!r}")
    name = f"eng-{LANGUAGES[language]}"
    inner = folder / "tatoeba"
    folder = inner if inner.is_dir() else folder
    lines_path, splits_path = folder / f"{name}.tsv.gz", folder / f"{name}.split.gz"
    for path in (lines_path, splits_path):
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing. It is part of the Tatoeba pairs with English in the selection of "
                f"www.manythings.org/anki (CC BY 2.0 FR): {name}.tsv.gz holds english<TAB>other, one pair a line, "
                f"{name}.split.gz holds train, valid or test for each. {hint}"
            )
    lines, splits = read_lines(lines_path), read_lines(splits_path)
    if len(lines) != len(splits):
        raise ValueError(f"{lines_path} has {len(lines)} lines, but {splits_path} has {len(splits)}.")
    pairs: list[TatoebaPair] = []
    for number, (line, split) in enumerate(zip(lines, splits, strict=True), start=1):
        sides = line.split("\t")
        # As they are published, a third one says who wrote them.
        if len(sides) not in (2, 3) or not _is_split(split):
            raise ValueError(f"Line {number} of {lines_path} or {splits_path} is not a pair in one of {SPLITS}.")
        pairs.append(TatoebaPair(sides[0], sides[1], split))
    return pairs


def _is_split(name: str) -> TypeGuard[Split]:
    return name in SPLITS

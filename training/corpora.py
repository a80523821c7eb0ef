"""Reads sentence pairs of published data sets.

It does not know what is done with them.
"""

import gzip
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from training.translation_data import SPLITS, Corpus, Pair

# ISO 639-3, as Tatoeba's files are named, by BCP 47.
TATOEBA: Mapping[str, str] = MappingProxyType({"es": "spa", "fr": "fra", "de": "deu"})


def read_tatoeba(data: Path, language: str) -> Corpus:
    """Read DATA/tatoeba/eng-LANGUAGE.{tsv,split}.gz, English on the left.

    Raises FileNotFoundError that says what is missing and where it comes from, ValueError for files that disagree.
    """
    pairs_path, split_path = (data / "tatoeba" / f"eng-{language}.{kind}.gz" for kind in ("tsv", "split"))
    for path in (pairs_path, split_path):
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing. Give the folder that holds tatoeba/ by --data or REGARD_DATA. It has the Tatoeba "
                f"pairs of manythings.org/anki as english<TAB>other, one a line, and beside them train, valid or test."
            )
    lines = _lines(pairs_path)
    names = gzip.decompress(split_path.read_bytes()).decode().split()
    if len(lines) != len(names):
        raise ValueError(f"{pairs_path} has {len(lines)} lines, but {split_path} has {len(names)}.")
    splits: dict[str, list[Pair]] = {name: [] for name in SPLITS}
    for number, (line, name) in enumerate(zip(lines, names, strict=True), start=1):
        sides = line.split("\t")
        if len(sides) != 2 or name not in splits:
            raise ValueError(f"Line {number} of {pairs_path} or {split_path} is not a pair in one of {SPLITS}.")
        splits[name].append(Pair(*sides))
    origin = f"Tatoeba pairs eng-{language}, manythings.org/anki and tatoeba.org, CC BY 2.0 FR"
    return Corpus(train=splits["train"], valid=splits["valid"], test=splits["test"], origin=origin)


def read_tatoeba_into(data: Path, languages: tuple[str, ...]) -> Corpus:
    """Read English with several other languages (BCP 47), whose pairs say which; raises what `read_tatoeba` does."""
    read = {language: read_tatoeba(data, TATOEBA[language]) for language in languages}

    def all_of(split: str) -> list[Pair]:
        return [
            pair._replace(language=language) for language, corpus in read.items() for pair in getattr(corpus, split)
        ]

    names = ", ".join(f"eng-{TATOEBA[language]}" for language in languages)
    origin = f"Tatoeba pairs {names}, manythings.org/anki and tatoeba.org, CC BY 2.0 FR"
    return Corpus(train=all_of("train"), valid=all_of("valid"), test=all_of("test"), origin=origin)


def read_multi30k(data: Path, language: str = "de") -> Corpus:
    """Read DATA/multi30k/SET.{en,LANGUAGE}.gz; test is that of 2016, and that of 2017 is a further one.

    Elliott et al. 2016. Raises FileNotFoundError that says what is missing and where it comes from, ValueError for
    files that disagree.
    """

    def read(name: str) -> list[Pair]:
        sides: list[list[str]] = []
        for side in ("en", language):
            path = data / "multi30k" / f"{name}.{side}.gz"
            if not path.is_file():
                raise FileNotFoundError(
                    f"{path} is missing. Give the folder that holds multi30k/ by --data or REGARD_DATA. It has the raw "
                    f"sentences of task 1 of github.com/multi30k/dataset, one a line."
                )
            sides.append([line.strip().replace("\t", " ") for line in _lines(path)])
        if len(sides[0]) != len(sides[1]):
            raise ValueError(f"{name} has {len(sides[0])} English lines, but {len(sides[1])} in {language}.")
        return list(map(Pair, *sides))

    return Corpus(
        train=read("train"),
        valid=read("val"),
        test=read("test_2016_flickr"),
        origin=f"Multi30k en-{language} (Elliott et al. 2016), for research and education, non-commercial",
        further_tests={"test_2017_flickr": read("test_2017_flickr")},
    )


def _lines(path: Path) -> list[str]:
    # Split at "\n" alone: other line ends of Unicode may stand inside a sentence.
    return gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n")

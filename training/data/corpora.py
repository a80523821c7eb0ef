"""Reads sentence pairs of published data sets for training."""

from pathlib import Path

from regard.datasets.lines import read_lines
from regard.datasets.tatoeba import LANGUAGES, ORIGIN
from regard.datasets.tatoeba import read_tatoeba as read_pairs
from regard.training.data.translation_data import Corpus, Pair

_HINT = "Give the folder that holds tatoeba/ by --data or REGARD_DATA."


def read_tatoeba(data: Path, language: str) -> Corpus:
    """Read English with another language (BCP 47) from DATA/tatoeba.

    Raises FileNotFoundError that says what is missing and where it comes from, ValueError for files that disagree.
    """
    pairs = read_pairs(data, language, hint=_HINT)
    return Corpus(
        train=[Pair(pair.english, pair.other) for pair in pairs if pair.split == "train"],
        valid=[Pair(pair.english, pair.other) for pair in pairs if pair.split == "valid"],
        test=[Pair(pair.english, pair.other) for pair in pairs if pair.split == "test"],
        origin=f"Tatoeba pairs eng-{LANGUAGES[language]}, {ORIGIN}",
    )


def read_tatoeba_into(data: Path, languages: tuple[str, ...]) -> Corpus:
    """Read English with several other languages (BCP 47), whose pairs say which; raises what `read_tatoeba` does."""
    read = {language: read_tatoeba(data, language) for language in languages}

    def all_of(split: str) -> list[Pair]:
        return [
            pair._replace(language=language) for language, corpus in read.items() for pair in getattr(corpus, split)
        ]

    names = ", ".join(f"eng-{LANGUAGES[language]}" for language in languages)
    return Corpus(
        train=all_of("train"), valid=all_of("valid"), test=all_of("test"), origin=f"Tatoeba pairs {names}, {ORIGIN}"
    )


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
            sides.append([line.strip().replace("\t", " ") for line in read_lines(path)])
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

"""Reads test sets: plain files of one text a line, Tatoeba as it comes, gold alignments.

It does not know what is done with them, and fetches nothing: where data is missing it says what and where to get it.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtest.word_links import GoldPair
from scoring.alignments import parse_links

TATOEBA = (
    "{path} is missing. It is part of the Tatoeba pairs with English in the selection of www.manythings.org/anki "
    "(CC BY 2.0 FR): eng-spa.tsv.gz holds english<TAB>spanish, one pair a line, eng-spa.split.gz holds train, valid or "
    "test for each; other languages likewise. Name their folder by --tatoeba, or the folder above it by REGARD_DATA."
)
# As the files are called (ISO 639-3).
_FILES = {"es": "spa", "fr": "fra", "de": "deu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSet:
    """Texts with their translations.

    Attributes:
        name: for the table.
        sources: distinct or not, in order.
        references: all translations of each.
    """

    name: str
    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]

    def first(self, count: int | None) -> "TestSet":
        """The first texts only."""
        return TestSet(name=self.name, sources=self.sources[:count], references=self.references[:count])


def read_lines(path: Path) -> tuple[str, ...]:
    """The lines of a file, plain or gzipped, split at line feeds only. Raises FileNotFoundError or ValueError."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    except (UnicodeDecodeError, gzip.BadGzipFile) as problem:
        raise ValueError(f"{path} is not UTF-8 text: {problem}") from problem
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))


def read_parallel(source: Path, references: Sequence[Path]) -> TestSet:
    """One text a line in every file. Raises ValueError if the files differ in length."""
    sources = read_lines(source)
    streams = [read_lines(path) for path in references]
    for path, stream in zip(references, streams, strict=True):
        if len(stream) != len(sources):
            raise ValueError(f"{path} has {len(stream)} lines, {source} has {len(sources)}")
    return TestSet(name=source.name, sources=sources, references=tuple(zip(*streams, strict=True)))


def read_tatoeba(folder: Path, split: str, language: str = "es") -> TestSet:
    """A split of English and another language with one translation each, as its pairs come.

    Raises FileNotFoundError that says what is missing and where it comes from, ValueError for a language that is not
    there.
    """
    if language not in _FILES:
        raise ValueError(f"Tatoeba is read for {', '.join(_FILES)}, not {language!r}")
    name = f"eng-{_FILES[language]}"
    inner = folder / "tatoeba"
    folder = inner if inner.is_dir() else folder
    lines_path, split_path = folder / f"{name}.tsv.gz", folder / f"{name}.split.gz"
    for path in (lines_path, split_path):
        if not path.is_file():
            raise FileNotFoundError(TATOEBA.format(path=path))
    lines, splits = read_lines(lines_path), read_lines(split_path)
    pairs = [line.split("\t")[:2] for line, named in zip(lines, splits, strict=True) if named == split]
    if not pairs:
        raise ValueError(f"{split_path} has no split {split!r}; it has {', '.join(sorted(set(splits)))}")
    return TestSet(
        name=f"Tatoeba en-{language} {split}",
        sources=tuple(english for english, _ in pairs),
        references=tuple((translation,) for _, translation in pairs),
    )


def group_references(pairs: TestSet) -> TestSet:
    """Every source once, with all its translations."""
    grouped: dict[str, list[str]] = {}
    for source, references in zip(pairs.sources, pairs.references, strict=True):
        grouped.setdefault(source, []).extend(references)
    return TestSet(
        name=f"{pairs.name}, all references",
        sources=tuple(grouped),
        references=tuple(tuple(found) for found in grouped.values()),
    )


def read_alignments(path: Path, *, sources: Sequence[str] = (), targets: Sequence[str] = ()) -> tuple[GoldPair, ...]:
    """Gold alignments: lines of source<TAB>target<TAB>links, or of links alone for the given sources and targets.

    Raises ValueError that names the line.
    """
    lines = read_lines(path)
    whole = "\t" in lines[0]
    if not whole and not (len(lines) == len(sources) == len(targets)):
        raise ValueError(
            f"{path} has {len(lines)} lines of links, but there are {len(sources)} sources and {len(targets)} "
            "references; with lines of source<TAB>target<TAB>links it needs neither"
        )
    pairs: list[GoldPair] = []
    for number, line in enumerate(lines):
        if whole and line.count("\t") != 2:
            raise ValueError(f"line {number + 1} of {path} is not source<TAB>target<TAB>links")
        source, target, links = line.split("\t") if whole else (sources[number], targets[number], line)
        try:
            sure, possible = parse_links(links)
        except ValueError as problem:
            raise ValueError(f"line {number + 1} of {path}: {problem}") from problem
        pairs.append(GoldPair(source=source, target=target, sure=sure, possible=possible))
    return tuple(pairs)

"""Reads test sets: plain files of one text a line, Tatoeba as it comes, gold alignments.

It does not know what is done with them, and fetches nothing: where data is missing it says what and where to get it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.datasets import tatoeba
from regard.datasets.lines import read_lines
from regard.datasets.tatoeba import SPLITS
from regard.loadtest.accuracy.word_links import GoldPair
from regard.scoring.alignments import parse_links


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


def read_parallel(source: Path, references: Sequence[Path]) -> TestSet:
    """One text a line in every file. Raises ValueError if the files differ in length."""
    sources = read_lines(source)
    streams = [read_lines(path) for path in references]
    for path, stream in zip(references, streams, strict=True):
        if len(stream) != len(sources):
            raise ValueError(f"{path} has {len(stream)} lines, {source} has {len(sources)}")
    return TestSet(name=source.name, sources=sources, references=tuple(zip(*streams, strict=True)))


def read_tatoeba(folder: Path, split: str, language: str = "es", *, option: str = "--tatoeba") -> TestSet:
    """A split of English and another language with one translation each, as its pairs come.

    option is what names the folder to whoever asks.

    Raises FileNotFoundError that says what is missing and where it comes from, ValueError for a language or a split
    that is not there.
    """
    if split not in SPLITS:
        raise ValueError(f"Tatoeba has no split {split!r}; it has {', '.join(SPLITS)}")
    hint = f"Name their folder by {option}, or the folder above it by REGARD_DATA."
    pairs = [pair for pair in tatoeba.read_tatoeba(folder, language, hint=hint) if pair.split == split]
    if not pairs:
        raise ValueError(f"there is no pair of English and {language!r} in the split {split!r}")
    return TestSet(
        name=f"Tatoeba en-{language} {split}",
        sources=tuple(pair.english for pair in pairs),
        references=tuple((pair.other,) for pair in pairs),
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

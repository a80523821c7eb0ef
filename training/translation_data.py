"""Reads sentence pairs and makes padded batches of them.

It does not know models, nor how pairs are learnt from.
"""

import gzip
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Dataset

from training.vocabulary import BEGIN, PAD, UNKNOWN, Vocabulary

SPLITS = ("train", "valid", "test")


class Pair(NamedTuple):
    """A sentence and one translation of it."""

    source: str
    target: str


class References(NamedTuple):
    """A sentence and all its translations."""

    source: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Sentence pairs by split, with a word on where they come from and under which terms."""

    train: Sequence[Pair]
    valid: Sequence[Pair]
    test: Sequence[Pair]
    origin: str


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
    # Split at "\n" alone: other line ends of Unicode may stand inside a sentence.
    lines = gzip.decompress(pairs_path.read_bytes()).decode().rstrip("\n").split("\n")
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


def group_references(pairs: Iterable[Pair]) -> list[References]:
    """Collect all targets of each distinct source, in order of first sight."""
    targets: dict[str, list[str]] = {}
    for source, target in pairs:
        targets.setdefault(source, []).append(target)
    return [References(source, tuple(found)) for source, found in targets.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """How pairs become batches, and how they are varied so that more than single tidy sentences is learnt."""

    tokens: int = 1200  # rows times the longest side, padding and all
    join: float = 0.0  # probability that an example goes on with the next one, at most two times
    upper: float = 0.0  # probability of both sides in capitals
    plain: float = 0.0  # probability of a source in small letters, without its last full stop
    longest: int = 128  # tokens on either side; longer pairs are left out

    def __post_init__(self) -> None:
        for name in ("join", "upper", "plain"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, but a probability lies between 0 and 1.")
        if self.longest < 1 or self.tokens < self.longest:
            raise ValueError(f"tokens is {self.tokens} and longest {self.longest}, but a batch holds the longest.")


class Batch(NamedTuple):
    """Padded rows, ready for a model."""

    source: Tensor  # int64 [batch, source]
    source_length: Tensor  # int64 [batch]
    target_in: Tensor  # int64 [batch, target], from <s>
    target_out: Tensor  # int64 [batch, target], to </s>; <pad> beyond


Example: TypeAlias = tuple[list[int], list[int]]


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return rows as int64 [batch, longest] filled up with <pad>, and their lengths int64 [batch]."""
    length = torch.tensor([len(row) for row in rows])
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows]), length


def collate(examples: Sequence[Example]) -> Batch:
    """Make one batch of examples, pairs of ids that end in </s>."""
    source, source_length = pad([source for source, _ in examples])
    target_out, _ = pad([target for _, target in examples])
    target_in, _ = pad([[BEGIN, *target[:-1]] for _, target in examples])
    return Batch(source, source_length, target_in, target_out)


class Batches(Dataset[Batch]):
    """One epoch of batches."""

    def __init__(self, batches: Sequence[Sequence[Example]]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Batch:
        return collate(self._batches[index])


class TranslationData:
    """Encoded pairs, cut into batches anew for every epoch; ids of targets are all below `output`."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, config: BatchConfig, *, output: int, seed: int) -> None:
        self._corpus = corpus
        self._vocabulary = vocabulary
        self._config = config
        self._output = output
        self._seed = seed
        self._train = self._encode(corpus.train)
        self._valid = self._encode(corpus.valid)

    def train(self, epoch: int) -> Batches:
        """Return the batches of an epoch: the same for the same seed and epoch, in another order for any other."""
        rng = random.Random(f"{self._seed} {epoch}")  # noqa: S311  shuffling, not secrets
        examples = self._joined(self._varied(rng), rng)
        batches = bucket(examples, self._config.tokens)
        rng.shuffle(batches)
        return Batches(batches)

    def valid(self) -> Batches:
        """Return the validation pairs, sorted by length and as they are."""
        return Batches(bucket(self._valid, self._config.tokens))

    def _encode(self, pairs: Sequence[Pair]) -> list[Example]:
        sources = self._vocabulary.encode_all([pair.source for pair in pairs])
        targets = self._vocabulary.encode_all([pair.target for pair in pairs])
        # New text can need entries that no target was learnt with, which no model can predict.
        predictable = [[index if index < self._output else UNKNOWN for index in target] for target in targets]
        return list(zip(sources, predictable, strict=True))

    def _varied(self, rng: random.Random) -> list[Example]:
        """Return the training examples in a random order, some of them written otherwise."""
        examples = list(self._train)
        changed: dict[int, Pair] = {}
        for index, pair in enumerate(self._corpus.train):
            draw = rng.random()
            if draw < self._config.upper:
                changed[index] = Pair(pair.source.upper(), pair.target.upper())
            elif draw < self._config.upper + self._config.plain:
                changed[index] = Pair(pair.source.lower().removesuffix("."), pair.target)
        for index, example in zip(changed, self._encode(list(changed.values())), strict=True):
            examples[index] = example
        rng.shuffle(examples)
        longest = self._config.longest
        return [(source, target) for source, target in examples if max(len(source), len(target)) <= longest]

    def _joined(self, examples: Sequence[Example], rng: random.Random) -> list[Example]:
        """Return examples of which some are two or three in a row: pieces never cross a space, so ids just follow."""
        joined: list[Example] = []
        parts = 0
        for source, target in examples:
            if 0 < parts < 3 and rng.random() < self._config.join:
                before, after = joined[-1][0][:-1] + source, joined[-1][1][:-1] + target
                if max(len(before), len(after)) <= self._config.longest:
                    joined[-1] = (before, after)
                    parts += 1
                    continue
            joined.append((source, target))
            parts = 1
        return joined


def bucket(examples: Sequence[Example], tokens: int) -> list[list[Example]]:
    """Sort examples by length, those of equal length as they come, and cut them into batches of at most `tokens`.

    What counts is rows times the longest side, padding and all.
    """

    def key(example: Example) -> tuple[int, int]:
        source, target = example
        return max(len(source), len(target)), len(source)

    batches: list[list[Example]] = []
    for example in sorted(examples, key=key):
        # Sorted, so that the newcomer has the longest side of its batch.
        if not batches or key(example)[0] * (len(batches[-1]) + 1) > tokens:
            batches.append([])
        batches[-1].append(example)
    return batches


def describe(corpus: Corpus) -> Mapping[str, object]:
    """Return what a checkpoint says of its data."""
    return {"origin": corpus.origin, **{name: len(getattr(corpus, name)) for name in SPLITS}}

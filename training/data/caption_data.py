"""Reads Flickr8k, pictures with five captions each, and makes batches of pictures with captions."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Dataset

from regard.datasets import flickr8k
from regard.datasets.flickr8k import Described, picture_reader
from regard.scoring.words import words
from regard.training.data.translation_data import SPLITS, Batch, pad
from regard.training.data.vocabulary import BEGIN, UNKNOWN, Vocabulary

# Given names, yields the encoded pictures in that order.
Load: TypeAlias = Callable[[Sequence[str]], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionCorpus:
    """Pictures with captions by split, with a word on where they come from and under which terms."""

    train: Sequence[Described]
    valid: Sequence[Described]
    test: Sequence[Described]
    load: Load  # JPEG or PNG
    origin: str


def plain(caption: str) -> str:
    """Return a caption in small letters, without punctuation but for hyphens and apostrophes within words."""
    return " ".join(words(caption)).replace(" '", "'")


def read_flickr8k(data: Path) -> CaptionCorpus:
    """Read DATA/flickr8k. Hodosh, Young and Hockenmaier 2013.

    Raises FileNotFoundError that says what is missing and where it comes from, ValueError for files that disagree.
    """
    found = flickr8k.read_flickr8k(data, hint="Give the folder that holds flickr8k/ by --data or REGARD_DATA.")
    return CaptionCorpus(
        train=found.splits["train"],
        valid=found.splits["dev"],
        test=found.splits["test"],
        load=lambda names: map(picture_reader(found.tars, names), names),
        origin=flickr8k.ORIGIN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionBatchConfig:
    """How pictures and captions become batches."""

    pictures: int = 16
    captions: int = 5  # of each picture, in an order drawn anew for every epoch
    longest: int = 30  # tokens of a caption, </s> included; longer ones are cut off

    def __post_init__(self) -> None:
        for name in ("pictures", "captions", "longest"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but it is at least 1.")


# Given names, returns what a model reads of those pictures: maps [picture, position, channel] or pixels.
ReadSource: TypeAlias = Callable[[Sequence[str]], Tensor]
_Part: TypeAlias = list[tuple[str, list[list[int]]]]


class CaptionBatches(Dataset[Batch]):
    """One epoch of batches."""

    def __init__(self, parts: Sequence[_Part], read_source: ReadSource) -> None:
        self._parts = parts
        self._read_source = read_source

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: int) -> Batch:
        part = self._parts[index]
        source = self._read_source([name for name, _ in part])
        targets = [target for _, captions in part for target in captions]
        target_out, _ = pad(targets)
        target_in, _ = pad([[BEGIN, *target[:-1]] for target in targets])
        return Batch(source, torch.full((len(source),), source.shape[1]), target_in, target_out)


class CaptionData:
    """Encoded captions, cut into batches anew for every epoch; ids are all below `output`.

    A batch holds each picture once and `captions` rows of targets for it, one after the other.
    """

    def __init__(
        self,
        corpus: CaptionCorpus,
        vocabulary: Vocabulary,
        config: CaptionBatchConfig,
        read_source: ReadSource,
        *,
        output: int,
        seed: int,
    ) -> None:
        self._config = config
        self._read_source = read_source
        self._seed = seed
        self._train, self._valid = (self._encode(split, vocabulary, output) for split in (corpus.train, corpus.valid))

    def train(self, epoch: int) -> CaptionBatches:
        """Return the batches of an epoch: the same for the same seed and epoch, in another order for any other."""
        rng = random.Random(f"{self._seed} {epoch}")  # noqa: S311  shuffling, not secrets
        drawn = [(name, rng.sample(captions, len(captions))) for name, captions in self._train]
        rng.shuffle(drawn)
        return self._batches(drawn, rng)

    def valid(self) -> CaptionBatches:
        """Return the validation pictures as they are."""
        return self._batches(self._valid)

    def _batches(self, described: _Part, rng: random.Random | None = None) -> CaptionBatches:
        count = self._config.captions
        # Every picture of a batch has as many rows; one with fewer captions begins again.
        rows = [(name, [captions[row % len(captions)] for row in range(count)]) for name, captions in described]
        # Pictures whose longest captions are about as long share a batch, so that less of it is padding.
        rows.sort(key=lambda row: max(map(len, row[1])))
        size = self._config.pictures
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        if rng is not None:
            rng.shuffle(parts)
        return CaptionBatches(parts, self._read_source)

    def _encode(self, described: Sequence[Described], vocabulary: Vocabulary, output: int) -> _Part:
        def predictable(ids: list[int]) -> list[int]:
            # New text can need entries that no target was learnt with, which no model can predict.
            known = [index if index < output else UNKNOWN for index in ids]
            return known if len(known) <= self._config.longest else [*known[: self._config.longest - 1], known[-1]]

        return [
            (name, [predictable(ids) for ids in vocabulary.encode_all(list(map(plain, captions)))])
            for name, captions in described
        ]


def describe(corpus: CaptionCorpus) -> Mapping[str, object]:
    """Return what a checkpoint says of its data."""
    return {"origin": corpus.origin, **{name: len(getattr(corpus, name)) for name in SPLITS}}

"""Makes padded batches of sentence pairs."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Dataset

from regard.training.data.augmentation import AugmentConfig, pools, vary
from regard.training.data.vocabulary import BEGIN, PAD, UNKNOWN, Vocabulary

SPLITS = ("train", "valid", "test")


class Pair(NamedTuple):
    """A sentence and one translation of it."""

    source: str
    target: str
    language: str = ""  # of the target, where a model knows several


class References(NamedTuple):
    """A sentence and all its translations into one language."""

    source: str
    targets: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Sentence pairs by split, with a word on where they come from and under which terms."""

    train: Sequence[Pair]
    valid: Sequence[Pair]
    test: Sequence[Pair]
    origin: str
    further_tests: Mapping[str, Sequence[Pair]] = field(default_factory=dict[str, Sequence[Pair]])  # by name


def group_references(pairs: Iterable[Pair]) -> list[References]:
    """Collect all targets of each distinct source, one language at a time, in order of first sight."""
    targets: dict[tuple[str, str], list[str]] = {}
    for source, target, language in pairs:
        targets.setdefault((source, language), []).append(target)
    return [References(source, tuple(found), language) for (source, language), found in targets.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """How pairs become batches, and how they are varied so that more than single tidy sentences is learnt."""

    tokens: int = 1200  # rows times the longest side, padding and all
    join: float = 0.0  # probability that an example goes on with the next one, at most two times
    upper: float = 0.0  # probability of both sides in capitals
    plain: float = 0.0  # probability of a source in small letters, without its last full stop
    longest: int = 128  # tokens on either side; longer pairs are left out
    pairs: int | None = None  # of each language in an epoch, in turn over many; None: all there are
    augment: AugmentConfig | None = None  # how names, figures, marks and slips are varied; None: not at all
    subword_dropout: float = 0.0  # probability of a merge of subwords not to happen in sources that are varied

    def __post_init__(self) -> None:
        for name in ("join", "upper", "plain", "subword_dropout"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, but a probability lies between 0 and 1.")
        if self.longest < 1 or self.tokens < self.longest:
            raise ValueError(f"tokens is {self.tokens} and longest {self.longest}, but a batch holds the longest.")
        if self.pairs is not None and self.pairs < 1:
            raise ValueError(f"pairs is {self.pairs}, but an epoch has at least 1 of each language.")


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
        self._languages: dict[str, list[int]] = {}
        for place, pair in enumerate(corpus.train):
            self._languages.setdefault(pair.language, []).append(place)
        self._pools = {
            language: pools(corpus.train, places) for language, places in self._languages.items() if config.augment
        }
        self._dropping = vocabulary.dropping(config.subword_dropout) if config.subword_dropout else vocabulary
        self._train = self._encode(corpus.train)
        self._valid = self._encode(corpus.valid)

    @property
    def examples(self) -> Sequence[Example]:
        """All training pairs as ids, as they are."""
        return self._train

    def train(self, epoch: int) -> Batches:
        """Return the batches of an epoch: the same for the same seed and epoch, in another order for any other."""
        rng = random.Random(f"{self._seed} {epoch}")  # noqa: S311  shuffling, not secrets
        examples = self._joined(self._varied(self._redrawn(self._chosen(epoch), rng), rng), rng)
        batches = bucket(examples, self._config.tokens)
        rng.shuffle(batches)
        return Batches(batches)

    def valid(self) -> Batches:
        """Return the validation pairs, sorted by length and as they are."""
        return Batches(bucket(self._valid, self._config.tokens))

    def _encode(self, pairs: Sequence[Pair], of_sources: Vocabulary | None = None) -> list[Example]:
        sources = (of_sources or self._vocabulary).encode_all([pair.source for pair in pairs])
        for source, pair in zip(sources, pairs, strict=True):
            source[-1] = self._vocabulary.end(pair.language)
        targets = self._vocabulary.encode_all([pair.target for pair in pairs])
        # New text can need entries that no target was learnt with, which no model can predict.
        predictable = [[index if index < self._output else UNKNOWN for index in target] for target in targets]
        return list(zip(sources, predictable, strict=True))

    def _chosen(self, epoch: int) -> list[int]:
        """Return which pairs an epoch has: each language goes through its own, in another order every time."""
        chosen: list[int] = []
        for language, places in self._languages.items():
            count = self._config.pairs or len(places)
            first = epoch * count
            while first < (epoch + 1) * count:
                done, start = divmod(first, len(places))
                order = places.copy()
                random.Random(f"{self._seed} {language} {done}").shuffle(order)  # noqa: S311  shuffling, not secrets
                part = order[start : start + (epoch + 1) * count - first]
                chosen.extend(part)
                first += len(part)
        return chosen

    def _redrawn(self, chosen: Sequence[int], rng: random.Random) -> list[int]:
        """Return the chosen ones, some of which gave way to pairs with figures and to short ones of their language."""
        augment = self._config.augment
        if augment is None:
            return list(chosen)
        drawn: list[int] = []
        for index in chosen:
            figures, short = self._pools[self._corpus.train[index].language]
            draw = rng.random()
            if figures and draw < augment.more_figures:
                drawn.append(rng.choice(figures))
            elif short and augment.more_figures <= draw < augment.more_figures + augment.more_short:
                drawn.append(rng.choice(short))
            else:
                drawn.append(index)
        return drawn

    def _varied(self, chosen: Sequence[int], rng: random.Random) -> list[Example]:
        """Return the chosen examples in a random order, some of them written otherwise."""
        examples = [self._train[index] for index in chosen]
        changed: dict[int, Pair] = {}
        for place, index in enumerate(chosen):
            pair = self._corpus.train[index]
            draw = rng.random()
            if draw < self._config.upper:
                changed[place] = pair._replace(source=pair.source.upper(), target=pair.target.upper())
            elif draw < self._config.upper + self._config.plain:
                changed[place] = pair._replace(source=pair.source.lower().removesuffix("."))
            elif self._config.augment is not None:
                source, target = vary(*pair, self._config.augment, rng)
                changed[place] = pair._replace(source=source, target=target)
        again = self._encode(list(changed.values()), self._dropping)
        for place, example in zip(changed, again, strict=True):
            examples[place] = example
        rng.shuffle(examples)
        longest = self._config.longest
        return [(source, target) for source, target in examples if max(len(source), len(target)) <= longest]

    def _joined(self, examples: Sequence[Example], rng: random.Random) -> list[Example]:
        """Return examples of which some are two or three in a row: pieces never cross a space, so ids just follow."""
        joined: list[Example] = []
        parts = 0
        for source, target in examples:
            # Sources into one language end alike.
            if 0 < parts < 3 and source[-1] == joined[-1][0][-1] and rng.random() < self._config.join:
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

"""Learns from sentence pairs which vocabulary entries translate each other, and links those of any pair."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from regard.training.data.translation_data import Example, bucket, pad
from regard.training.data.vocabulary import PAD

# Larger than any id, so that a pair of ids is one number.
_SPAN = 1 << 31
# Shares of nothing and weights of padding stay numbers when divided.
_TINY = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class LexiconConfig:
    """How entries are counted and when two are linked."""

    first_rounds: int = 4  # over all pairs, without regard to positions
    rounds: int = 4  # in which entries near the diagonal are the likelier ones
    tension: float = 4.0  # how much likelier: exp(-tension |i / source - j / target|), Dyer et al. 2013
    nothing: float = 0.08  # probability that an entry has no counterpart
    least: float = 0.25  # product of the probabilities from both sides from which on two entries are linked

    def __post_init__(self) -> None:
        if self.first_rounds < 1 or self.rounds < 0:
            raise ValueError(
                f"first_rounds is {self.first_rounds} and rounds {self.rounds}, but they are at least 1 and 0."
            )
        if self.tension < 0.0:
            raise ValueError(f"tension is {self.tension}, but it is at least 0.")
        for name in ("nothing", "least"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, but it lies between 0 and 1.")


class Cells(NamedTuple):
    """Padded pairs without their end entries; every target position beside every source position is a cell."""

    entry: Tensor  # int64 [batch, target, source], a place among the keys
    real: Tensor  # [batch, target, source], 1 where neither is padding, else 0
    seen: Tensor  # bool [batch, target, source], whether the key is there
    near: Tensor  # [batch, target, source], how far the cell is from the diagonal, from 0 to 1
    source_share: Tensor  # [batch, source], of the id in all sources
    target_share: Tensor  # [batch, target], of the id in all targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """How probable entries are as translations of one another, from both sides."""

    config: LexiconConfig
    keys: Tensor  # int64 [entry], ascending: the pairs of ids that were seen together
    forward: Tensor  # [entry], of the target id, given the source id
    backward: Tensor  # [entry], of the source id, given the target id
    source_share: Tensor  # [id]
    target_share: Tensor  # [id]

    def links(self, source: Tensor, source_length: Tensor, target: Tensor, target_length: Tensor) -> Tensor:
        """Return bool [batch, target, source]: which entries of padded pairs translate one another.

        source int64 [batch, source] and target int64 [batch, target] are real up to their lengths, int64 [batch]. Both
        sides have to find a link; an entry may have none, or several.
        """
        return self.agreement(self.look_up(source, source_length, target, target_length), positions=True) > (
            self.config.least
        )

    def look_up(self, source: Tensor, source_length: Tensor, target: Tensor, target_length: Tensor) -> Cells:
        """Return what the lexicon has on padded pairs, given as for `links`."""
        keys = _key(source, target)
        entry = torch.searchsorted(self.keys, keys).clamp_(max=self.keys.shape[0] - 1)
        row, row_real = _places(target_length, target.shape[1])
        column, column_real = _places(source_length, source.shape[1])
        return Cells(
            entry,
            (row_real.unsqueeze(2) & column_real.unsqueeze(1)).float(),
            self.keys[entry] == keys,
            (row.unsqueeze(2) - column.unsqueeze(1)).abs(),
            self.source_share[source],
            self.target_share[target],
        )

    def agreement(self, cells: Cells, *, positions: bool) -> Tensor:
        """Return what both sides think of each cell, multiplied [batch, target, source]: Liang et al. 2006, section 3.

        positions says whether cells near the diagonal are likelier than others.
        """
        near = cells.real * torch.exp(-self.config.tension * cells.near) if positions else cells.real
        return self._posterior(near, self.forward[cells.entry] * cells.seen, cells.target_share.unsqueeze(2), 2) * (
            self._posterior(near, self.backward[cells.entry] * cells.seen, cells.source_share.unsqueeze(1), 1)
        )

    def _posterior(self, near: Tensor, probability: Tensor, share: Tensor, axis: int) -> Tensor:
        """Return how probably each position goes with those along an axis, if with any."""
        weights = (1.0 - self.config.nothing) * near / near.sum(axis, keepdim=True).clamp(min=_TINY) * probability
        # What has no counterpart is drawn from all ids as often as they occur.
        return weights / (weights.sum(axis, keepdim=True) + self.config.nothing * share).clamp(min=_TINY)


@torch.no_grad()
def learn_lexicon(
    examples: Sequence[Example], config: LexiconConfig, *, vocabulary: int, tokens: int = 8000
) -> Lexicon:
    """Count by expectation and maximisation which ids go together in pairs of ids that end in an end entry.

    IBM Model 1 (Brown et al. 1993), then a prior around the diagonal; each side counts what both believe in.
    vocabulary is how many ids there are, `tokens` bounds how much is looked at in one go. Raises ValueError where no
    pair has anything but end entries.
    """
    bare = [(source[:-1], target[:-1]) for source, target in examples if len(source) > 1 and len(target) > 1]
    if not bare:
        raise ValueError("A lexicon is learnt from pairs of sentences, but there are none.")
    # Pairs of about the same length together, so that little is padding.
    batches = [
        (*pad([source for source, _ in batch]), *pad([target for _, target in batch])) for batch in bucket(bare, tokens)
    ]
    keys = _distinct(torch.cat([_distinct(_key(source, target)) for source, _, target, _ in batches]))
    source_id, target_id = keys // _SPAN, keys % _SPAN
    keys = keys[(source_id != PAD) & (target_id != PAD)]
    source_id, target_id = keys // _SPAN, keys % _SPAN
    source_share = _share([source for source, _ in bare], vocabulary)
    target_share = _share([target for _, target in bare], vocabulary)
    # At first an id is as probable beside any other.
    lexicon = Lexicon(
        config=config,
        keys=keys,
        forward=target_share[target_id],
        backward=source_share[source_id],
        source_share=source_share,
        target_share=target_share,
    )
    pairs = [lexicon.look_up(*batch) for batch in batches]
    for number in range(config.first_rounds + config.rounds):
        counts = torch.zeros(keys.shape[0])
        for each in pairs:
            believed = lexicon.agreement(each, positions=number >= config.first_rounds)
            counts.index_add_(0, each.entry.flatten(), believed.flatten())
        lexicon = replace(
            lexicon,
            forward=counts / torch.zeros_like(source_share).index_add_(0, source_id, counts)[source_id].clamp(_TINY),
            backward=counts / torch.zeros_like(target_share).index_add_(0, target_id, counts)[target_id].clamp(_TINY),
        )
    return lexicon


def _key(source: Tensor, target: Tensor) -> Tensor:
    """Return int64 [batch, target, source]: the pair of ids of every cell as one number."""
    return source.unsqueeze(1) * _SPAN + target.unsqueeze(2)


def _distinct(values: Tensor) -> Tensor:
    """Return each value once, ascending."""
    return cast(Tensor, values.unique())  # pyright: ignore[reportUnknownMemberType]  torch types it in part


def _places(length: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Return where each position [batch, longest] lies between 0 and 1, and whether it is real."""
    positions = torch.arange(longest, device=length.device)
    real = positions < length.unsqueeze(1)
    return (positions + 0.5) / length.unsqueeze(1).clamp(min=1), real


def _share(rows: Sequence[Sequence[int]], vocabulary: int) -> Tensor:
    """Return how large a share of all ids each one has [id]."""
    counts = torch.bincount(torch.tensor([index for row in rows for index in row]), minlength=vocabulary)
    return counts / counts.sum()

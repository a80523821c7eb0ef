"""Aligns words by a model's attention, and reads gold alignments to score the links against."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.scoring.alignments import Links, parse_links
from regard.training.data.vocabulary import BEGIN, Vocabulary
from regard.training.models.protocol import SequenceModel

Heads = tuple[tuple[int, int], ...]  # (layer, head) of each; none stands for all there are


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedPair:
    """Words of a sentence and its translation, and which belong together; links count from 0, source word first."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: Links
    possible: Links  # the sure ones among them


def read_alignments(path: Path, *, turned: bool = False) -> list[AlignedPair]:
    """Read lines of source<TAB>target<TAB>links, words between spaces, links i-j if sure and i?j if only possible.

    turned makes the file's targets the sources.
    Raises FileNotFoundError where there is no file, ValueError for a line of another form.
    """
    pairs: list[AlignedPair] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").rstrip("\n").split("\n"), start=1):
        try:
            source, target, links = line.split("\t")
            sure, possible = parse_links(links)
        except ValueError as error:
            raise ValueError(f"Line {number} of {path} is not source, target and links.") from error
        pairs.append(
            AlignedPair(
                source=tuple(source.split(" ")),
                target=tuple(target.split(" ")),
                sure=sure,
                possible=possible,
            )
        )
    return [_turn(pair) for pair in pairs] if turned else pairs


def _turn(pair: AlignedPair) -> AlignedPair:
    def links(found: Links) -> Links:
        return frozenset((target, source) for source, target in found)

    return AlignedPair(source=pair.target, target=pair.source, sure=links(pair.sure), possible=links(pair.possible))


def align(model: SequenceModel[Any, Any], vocabulary: Vocabulary, pair: AlignedPair, *, language: str = "") -> Links:
    """Link every target word to the source word that the model looks at most, layers and heads averaged.

    language is that of the target, where the model knows several.
    """
    (links,) = align_by(model, vocabulary, pair, [()], language=language)
    return links


@torch.inference_mode()
def align_by(
    model: SequenceModel[Any, Any],
    vocabulary: Vocabulary,
    pair: AlignedPair,
    choices: Sequence[Heads],
    *,
    language: str = "",
    lag: int = 0,
) -> list[Links]:
    """Return for each choice of heads, averaged, the links of every target word to what they look at most.

    A model without attention links nothing.
    With a lag of 1 it is where they look in the step after the one that predicts a piece, which is fed it.

    The model is led through the given translation. Attention is summed over a word's source pieces and averaged over
    its target pieces.
    """
    source, source_words = word_pieces(vocabulary, pair.source)
    target, target_words = word_pieces(vocabulary, pair.target)
    source[-1] = vocabulary.end(language)
    target_in = torch.tensor([[BEGIN, *target[:-1]]])
    _, attention = model.forward(torch.tensor([source]), torch.tensor([len(source)]), target_in)
    if not attention.shape[2]:
        return [frozenset() for _ in choices]
    return [
        frozenset(
            (int(place), word)
            for word, place in enumerate(
                merge(_earlier(average(attention, heads)[0], lag), source_words, target_words).argmax(dim=1),
            )
        )
        for heads in choices
    ]


def _earlier(looks: Tensor, lag: int) -> Tensor:
    """Return looks [target, source] that many places earlier; the last, ends that belong to no word, look nowhere."""
    return torch.cat((looks[lag:], torch.zeros_like(looks[:lag])))


def average(attention: Tensor, heads: Heads) -> Tensor:
    """Return the mean [batch, target, source] of heads of attention [batch, target, layer, head, source]."""
    if not heads:
        return attention.mean(dim=(2, 3))
    layers, numbers = zip(*heads, strict=True)
    return attention[:, :, list(layers), list(numbers)].mean(dim=2)


def merge(attention: Tensor, source_words: Sequence[int | None], target_words: Sequence[int | None]) -> Tensor:
    """Turn attention [target piece, source piece] into [target word, source word]; None marks a piece of no word."""
    source = torch.zeros(len(source_words), _count(source_words))
    for piece, word in enumerate(source_words):
        if word is not None:
            source[piece, word] = 1.0
    target = torch.zeros(_count(target_words), len(target_words))
    for piece, word in enumerate(target_words):
        if word is not None:
            target[word, piece] = 1.0
    return target @ attention @ source / target.sum(dim=1, keepdim=True).clamp(min=1.0)


def _count(words: Sequence[int | None]) -> int:
    return max((word + 1 for word in words if word is not None), default=0)


def word_pieces(vocabulary: Vocabulary, words: Sequence[str]) -> tuple[list[int], list[int | None]]:
    """Return the ids of words joined by spaces and the word of each; </s> belongs to none."""
    ids, spans = vocabulary.encode_with_spans(" ".join(words))
    word_at: list[int] = []
    for number, word in enumerate(words):
        # A piece that covers nothing but a space opens the word behind it.
        word_at.extend([number] * (len(word) + (number > 0)))
    return ids, [*(word_at[end - 1] for _, end in spans[:-1]), None]

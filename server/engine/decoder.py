"""Defines what the engine needs of a model: how to encode sources, how to step rows, and sizes and ids.

It knows neither what runs a model nor where it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.contract.ports import Port
from regard.server.bounds import longest_target
from regard.server.request import DecodeRequest, Ids, Pixels
from regard.server.search.rule import OutputVocabulary

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shortlist:
    """The output tokens that targets of some sources are made of.

    Attributes:
        source_end: the last token of those sources.
        tokens: ids [column], ascending, as the columns of its scores are: eos_id among them, no suppressed ones.
        scores: name of the step's output of log-probabilities over them.
    """

    source_end: int
    tokens: Ids
    scores: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFacts:
    """Sizes and ids of one model.

    Attributes:
        memory, state: tensors that `encode` returns and a step takes; a step returns each state under `next.NAME`.
            State with an axis `target` is a buffer that begins empty: step number n of a row, from 0, writes entry n,
            reads entries up to it, and leaves or copies all others. State that `encode` does not return is all zeros.
        state_in_place: such buffers are written where they are read; `bind_step` gets the same array for both.
        vocabulary_size: ids that a source may hold are below it.
        output_size: ids that a target may hold are below it; the columns of the graph port `scores`.
        shortlists: other log-probabilities that a step can make instead of `scores`, over fewer tokens.
        layers, heads: axes of attention; both 0 for a model without it.
        alignment_heads: (layer, head) pairs whose mean gives alignments.
        alignment_lag: 0 if a token's alignment is the attention of the step that predicts it, 1 if that of the next
            step, which is fed the token.
        pad_id: fills sources up to their width.
        bos_id: the token that decoding starts from.
        eos_id: the token that ends a target.
        suppressed_ids: never generated.
        max_source_tokens: of one segment, end of sentence included; of a picture, the cells of its map.
        max_target_tokens: of one segment, end of sentence not counted.
        pixels: height and width of the pictures that the model reads; None if it reads ids.
        encoder_attention: whether `encode` can also return the attention between the cells of pictures.
    """

    memory: tuple[Port, ...]
    state: tuple[Port, ...]
    vocabulary_size: int
    output_size: int
    layers: int
    heads: int
    alignment_heads: tuple[tuple[int, int], ...]
    pad_id: int
    bos_id: int
    eos_id: int
    suppressed_ids: tuple[int, ...]
    max_source_tokens: int
    max_target_tokens: int
    state_in_place: bool = False
    alignment_lag: int = 0
    pixels: tuple[int, int] | None = None
    encoder_attention: bool = False
    shortlists: tuple[Shortlist, ...] = ()

    def shortlist(self, request: DecodeRequest) -> int | None:
        """Return the number of the shortlist that a request is decoded with; None for all tokens.

        That of its target language, unless a forced target has other tokens.
        """
        if self.pixels is not None or not self.shortlists:
            return None
        end = int(request.source[-1])
        for number, shortlist in enumerate(self.shortlists):
            if shortlist.source_end == end:
                given = request.forced_target
                return number if given is None or bool(np.isin(given, shortlist.tokens).all()) else None
        return None

    def output_vocabulary(self, shortlist: int | None) -> OutputVocabulary:
        """Return the tokens that are searched with a shortlist, or all that are generated."""
        if shortlist is None:
            return OutputVocabulary(
                size=self.output_size, bos_id=self.bos_id, eos_id=self.eos_id, suppressed_ids=self.suppressed_ids
            )
        tokens = self.shortlists[shortlist].tokens
        return OutputVocabulary(
            size=len(tokens),
            bos_id=len(tokens),
            eos_id=int(np.searchsorted(tokens, self.eos_id)),
            suppressed_ids=(),
            token_ids=np.append(tokens, self.bos_id),
        )

    def scores_port(self, shortlist: int | None) -> str:
        """Return the name of the step's output of log-probabilities over the tokens of a shortlist, or over all."""
        return "scores" if shortlist is None else self.shortlists[shortlist].scores

    def positions(self, source: Ids | Pixels) -> int:
        """Return how many positions of a source there are to attend to: its ids, or the cells of a picture."""
        return len(source) if self.pixels is None else self.max_source_tokens

    def target_limit(self, request: DecodeRequest) -> int:
        """Return after how many tokens a target ends at the latest; a forced one counts its end of sentence.

        A caption may be as long as the model allows, whatever the size of its picture.
        """
        if request.forced_target is not None:
            return len(request.forced_target) + 1
        longest = self.max_target_tokens
        if self.pixels is None:
            longest = longest_target(self.positions(request.source), longest)
        return min(request.search.max_length, longest)


class Decoder(Protocol):
    """A model that several threads may use at once."""

    @property
    def facts(self) -> DecoderFacts:
        """Sizes and ids."""
        ...

    def encode(self, source: Ids | Pixels, source_length: Ids, *, encoder_attention: bool = False) -> Tensors:
        """Read source [batch, source], of which the first source_length [batch] ids of each row are real.

        A model that reads pictures gets pixels uint8 [batch, height, width, 3], all of whose positions are real.

        Returns every memory tensor and those state tensors that do not begin as zeros by name, axis 0 being batch; with
        encoder_attention, which takes a model that has it, also `attention.encoder` float32
        [batch, layer, head, query, source].
        """
        ...

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        """Prepare a step over the first `rows` rows of buffers that stay where they are.

        Args:
            inputs: `token`, every state and every memory tensor by name, [capacity, ...], C-contiguous.
            outputs: `scores` or the port of one of the shortlists, every state under `next.NAME`, and `attention` if
                the model has it, alike.
            rows: at least 1.

        Returns:
            A function that reads the inputs, writes the outputs and touches nothing else. One thread uses it. Buffers
            hold finite numbers beyond a row's entries, left there by other rows, which must not matter.
        """
        ...

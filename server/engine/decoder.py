"""What the engine needs of a model: how to encode sources, how to step rows, and the sizes and ids that steer a search.

Does not know what runs a model, nor where it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.server.bounds import longest_target
from regard.server.bundle.ports import PortSpec
from regard.server.request import DecodeRequest, Ids, Pixels

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenChoice:
    """The tokens that targets of some sources are made of.

    Attributes:
        source_end: the last token of those sources.
        tokens: ids [column], ascending, as the columns of its scores are: end_id among them, none of `never`.
        scores: name of the step's output over them.
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
        scores_size: columns of the scores, at most vocabulary_size; ids from there on are never generated.
        choices: other scores that a step can make instead, over fewer tokens.
        ids: None where a column of the scores is the id of its token; else the id of each column, and last begin_id.
            Then scores_size, begin_id, end_id and never are columns.
        layers, heads: axes of attention; both 0 for a model without it.
        alignment_heads: (layer, head) pairs whose mean gives alignments.
        alignment_lag: 0 if they look at what a token translates in the step that predicts it, 1 if in the next, which
            is fed the token.
        pad_id: fills sources up to their width.
        begin_id: the token that decoding starts from.
        end_id: the token that ends a target.
        never: ids that are never generated.
        max_source_tokens: of one segment, end of sentence included; of a picture, the cells of its map.
        max_target_tokens: of one segment, end of sentence not counted.
        pixels: height and width of the pictures that the model reads; None if it reads ids.
        encoder_attention: whether `encode` can also return how the cells of pictures looked at each other.
    """

    memory: tuple[PortSpec, ...]
    state: tuple[PortSpec, ...]
    vocabulary_size: int
    scores_size: int
    layers: int
    heads: int
    alignment_heads: tuple[tuple[int, int], ...]
    pad_id: int
    begin_id: int
    end_id: int
    never: tuple[int, ...]
    max_source_tokens: int
    max_target_tokens: int
    state_in_place: bool = False
    alignment_lag: int = 0
    pixels: tuple[int, int] | None = None
    encoder_attention: bool = False
    choices: tuple[TokenChoice, ...] = ()
    ids: Ids | None = None

    def choice(self, request: DecodeRequest) -> int | None:
        """Return which of the choices a request is decoded with; None for all tokens.

        That of its target language, unless a given target has other tokens.
        """
        if self.pixels is not None or not self.choices:
            return None
        end = int(request.source[-1])
        for place, choice in enumerate(self.choices):
            if choice.source_end == end:
                given = request.forced_target
                return place if given is None or bool(np.isin(given, choice.tokens).all()) else None
        return None

    def choosing(self, choice: int | None) -> DecoderFacts:
        """Return the facts of a search among the tokens of a choice, in which columns stand for ids."""
        if choice is None:
            return self
        tokens = self.choices[choice].tokens
        return replace(
            self,
            scores_size=len(tokens),
            begin_id=len(tokens),
            end_id=int(np.searchsorted(tokens, self.end_id)),
            never=(),
            ids=np.append(tokens, self.begin_id),
        )

    def positions(self, source: Ids | Pixels) -> int:
        """Return how many positions of a source there are to attend to: its ids, or the cells of a picture."""
        return len(source) if self.pixels is None else self.max_source_tokens

    def most_tokens(self, positions: int) -> int:
        """Return how many tokens a target may have, end of sentence not counted; a picture's are as many as any."""
        return longest_target(positions, self.max_target_tokens) if self.pixels is None else self.max_target_tokens


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
            outputs: `scores` or those of one of the choices, every state under `next.NAME`, and `attention` if the
                model has it, alike.
            rows: at least 1.

        Returns:
            A function that reads the inputs, writes the outputs and touches nothing else. One thread uses it. Buffers
            hold finite numbers beyond a row's entries, left there by other rows, which must not matter.
        """
        ...

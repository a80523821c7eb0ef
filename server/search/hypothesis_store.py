"""Remembers what was generated and looked at, step by step, and reads whole hypotheses back from it.

Does not know models, scores that were not chosen, or which rows run; its entries are slots, which do not move while a
request lives. A beam owns several slots: hypothesis b of a step lies in slot b, with the number of its parent among the
hypotheses of the step before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.engine.decoder import DecoderFacts
from regard.server.request import DecodeRequest, FinishReason, Hypothesis, Ids, Weights

Slots = NDArray[np.intp]


class Leaf(NamedTuple):
    """How a hypothesis ended: with a last token, after a parent.

    Attributes:
        parent: number of the hypothesis it continues, among those before the last step.
        length: tokens before the last one.
        token: the last one; the end of sentence if `ended`.
        log_probability: of the last one.
        total: sum of all log-probabilities; what the score of a hypothesis is foretold by.
    """

    parent: int
    length: int
    token: int
    log_probability: float
    ended: bool
    total: float

    def score(self, length_penalty: float) -> float:
        """Return the score, but for rounding."""
        return self.total / (self.length + 1) ** length_penalty


class History:
    """Tokens, log-probabilities, parents and attention of all slots.

    Memory is used only where something was written.
    """

    def __init__(self, facts: DecoderFacts, *, slots: int, width: int) -> None:
        # One more than the longest target: a forced one has its end of sentence written, too.
        steps = facts.max_target_tokens + 1
        self.tokens = np.empty((slots, steps), dtype=np.int64)
        self.log_probabilities = np.empty((slots, steps), dtype=np.float32)
        self.parents = np.empty((slots, steps), dtype=np.int16)
        columns = width if facts.layers else 0
        self._attention = np.empty((slots, steps, facts.layers, facts.heads, columns), dtype=np.float32)
        # The same memory, without an axis for slots.
        self._looked = self._attention.reshape(slots * steps, facts.layers, facts.heads, columns)
        self._layers = [layer for layer, _ in facts.alignment_heads]
        self._heads = [head for _, head in facts.alignment_heads]
        self._only_head = facts.layers * facts.heads == 1
        # Where alignments come from all heads of one layer, that layer is read without index arrays.
        every_head = [(self._layers[0], head) for head in range(facts.heads)] if self._layers else []
        self._only_layer = self._layers[0] if list(facts.alignment_heads) == every_head and every_head else None
        self._lag = facts.alignment_lag
        self._positions = facts.positions
        self._ids = facts.ids

    def go_on(self, slots: Slots, length: Ids, tokens: Ids, log_probabilities: Weights, parents: Ids) -> None:
        """Let each slot go on with a token as its number `length`, after a parent; all arrays alike, or broadcast."""
        # Places in flat arrays cost less than two indices.
        places = slots * self.tokens.shape[1] + length
        self.tokens.put(places, tokens)
        self.log_probabilities.put(places, log_probabilities)
        self.parents.put(places, parents)

    def look(self, slots: Slots | int, length: Ids | int, attention: Weights) -> None:
        """Keep what each slot looks at [row, layer, head, width] to predict its token number `length` [row].

        Or what one does, then without the axis of rows.
        """
        self._attention[slots, length] = attention

    def hypotheses(self, request: DecodeRequest, slots: Slots, leaves: Sequence[Leaf]) -> tuple[Hypothesis, ...]:
        """Return what a request that owns the slots [beam] has found, best first, from how its hypotheses ended.

        A forced target has no leaves; its end of sentence lies after it.
        """
        if len(slots) == 1:
            return (self._read_single(request, int(slots[0]), leaves),)
        penalty = request.search.length_penalty
        best = sorted(leaves, key=lambda leaf: -leaf.score(penalty))[: request.search.n_best]
        found = [self._read(request, slots, leaf) for leaf in best]
        found.sort(key=lambda hypothesis: -hypothesis.score)
        return tuple(found)

    def _read(self, request: DecodeRequest, slots: Slots, leaf: Leaf) -> Hypothesis:
        # Where each token lies, and where the attention that predicted it, in flat arrays, from the last to the first.
        owned: list[int] = slots.tolist()
        steps = self.tokens.shape[1]
        slot = owned[leaf.parent]
        held: list[int] = []
        looked = [slot * steps + leaf.length]
        for step in range(leaf.length - 1, -1, -1):
            held.append(slot * steps + step)
            slot = owned[self.parents.item(slot, step)]
            looked.append(slot * steps + step)
        count = leaf.length + (not leaf.ended)
        tokens = np.empty(count, dtype=np.int64)
        log_probabilities = np.empty(count, dtype=np.float32)
        if held:
            tokens[: leaf.length] = self.tokens.take(held[::-1])
            log_probabilities[: leaf.length] = self.log_probabilities.take(held[::-1])
        if not leaf.ended:
            tokens[-1] = leaf.token
            log_probabilities[-1] = leaf.log_probability
        return self._hypothesis(
            request,
            tokens,
            log_probabilities,
            leaf.log_probability if leaf.ended else 0.0,
            self._looked.take(looked[::-1], axis=0)[..., : self._positions(request.source)],
            FinishReason.END if leaf.ended else FinishReason.LENGTH,
        )

    def _read_single(self, request: DecodeRequest, slot: int, leaves: Sequence[Leaf]) -> Hypothesis:
        """As `_read`, for a request of one slot: nothing was inherited, all of it lies in a row."""
        if request.forced_target is not None:
            count, reason = len(request.forced_target), FinishReason.FORCED
        else:
            (leaf,) = leaves
            # The last token is in the history, too; one that ends the sentence is no part of the target.
            count = leaf.length + (not leaf.ended)
            reason = FinishReason.END if leaf.ended else FinishReason.LENGTH
        return self._hypothesis(
            request,
            self.tokens[slot, :count].copy(),
            self.log_probabilities[slot, :count].copy(),
            0.0 if reason is FinishReason.LENGTH else float(self.log_probabilities[slot, count]),
            self._attention[
                slot, : count + (reason is not FinishReason.LENGTH), :, :, : self._positions(request.source)
            ].copy(),
            reason,
        )

    def _hypothesis(
        self,
        request: DecodeRequest,
        tokens: Ids,
        log_probabilities: Weights,
        end_log_probability: float,
        looked: Weights,
        reason: FinishReason,
    ) -> Hypothesis:
        """Put a hypothesis together; `looked` [step, layer, head, source] has one step more if it ended."""
        count = len(tokens)
        counted = max(count + (reason is not FinishReason.LENGTH), 1)
        total = math.fsum(log_probabilities.tolist()) + end_log_probability
        # Nothing is fed the last token of what was cut off; what predicted it stands in.
        steps = np.minimum(np.arange(self._lag, self._lag + count), len(looked) - 1) if self._lag else slice(count)
        aligned, looked = looked[steps], looked[:count]
        if self._only_head or not self._layers:
            alignment = aligned.reshape(count, looked.shape[-1])
        elif self._only_layer is not None:
            alignment = np.add.reduce(aligned[:, self._only_layer], axis=1) / np.float32(looked.shape[2])
        else:
            alignment = aligned[:, self._layers, self._heads].mean(axis=1)
        return Hypothesis(
            tokens=tokens if self._ids is None else self._ids.take(tokens),
            log_probabilities=log_probabilities,
            end_log_probability=end_log_probability,
            score=total / counted**request.search.length_penalty,
            finish_reason=reason,
            alignment=alignment,
            attention=np.ascontiguousarray(looked.transpose(1, 2, 0, 3))
            if request.keep_attention and self._layers
            else None,
        )

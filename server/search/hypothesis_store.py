"""Remembers tokens, log-probabilities and attention of all hypotheses step by step, and reads whole ones back.

Its entries are slots. A beam owns several: hypothesis b of a step lies in slot b, with the number of its parent among
the hypotheses of the step before, so that attention follows a beam however often its rows are reordered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regard.server.request import DecodeRequest, FinishReason, Hypothesis, Ids, Weights
from regard.server.search.rule import FinishedHypothesis, OutputVocabulary, Slots, length_normalised
from regard.server.search.searches import Search


class HypothesisStore:
    """What the hypotheses in all slots were made of. Memory is used only where something was written.

    Args:
        slots: how many.
        steps: most tokens of one, the end of sentence of a forced target counted.
        width: to which sources are padded.
        layers, heads: axes of attention; both 0 for a model without it.
        alignment_heads: (layer, head) pairs whose mean gives alignments.
        alignment_lag: see `DecoderFacts`.

    Attributes:
        tokens, log_probs: of the token of each step [slot, step].
        parents: number of the hypothesis that the token of each step continues [slot, step].
    """

    def __init__(
        self,
        vocabulary: OutputVocabulary,
        *,
        slots: int,
        steps: int,
        width: int,
        layers: int,
        heads: int,
        alignment_heads: Sequence[tuple[int, int]],
        alignment_lag: int,
    ) -> None:
        self.steps = steps
        self.tokens = np.empty((slots, steps), dtype=np.int64)
        self.log_probs = np.empty((slots, steps), dtype=np.float32)
        self.parents = np.empty((slots, steps), dtype=np.int16)
        columns = width if layers else 0
        self._attention = np.empty((slots, steps, layers, heads, columns), dtype=np.float32)
        # The same memory, without an axis for slots.
        self._flat_attention = self._attention.reshape(slots * steps, layers, heads, columns)
        self._layers = [layer for layer, _ in alignment_heads]
        self._heads = [head for _, head in alignment_heads]
        self._only_head = layers * heads == 1
        # Where alignments come from all heads of one layer, that layer is read without index arrays.
        every_head = [(self._layers[0], head) for head in range(heads)] if self._layers else []
        self._only_layer = self._layers[0] if list(alignment_heads) == every_head and every_head else None
        self._lag = alignment_lag
        self._vocabulary = vocabulary

    def force(self, slot: int, target: Ids) -> None:
        """Write down ids [target] that a slot must generate, with the end of sentence behind them."""
        self.tokens[slot, : len(target)] = self._vocabulary.columns(target)
        self.tokens[slot, len(target)] = self._vocabulary.eos_id

    def extend(self, slots: Slots, length: Ids, tokens: Ids, log_probs: Weights, parents: Ids) -> None:
        """Extend each slot by a token as its number `length`, after a parent; all arrays alike, or broadcast."""
        # Places in flat arrays cost less than two indices.
        places = slots * self.steps + length
        self.tokens.put(places, tokens)
        self.log_probs.put(places, log_probs)
        self.parents.put(places, parents)

    def keep_attention(self, slots: Slots | int, length: Ids | int, attention: Weights) -> None:
        """Keep the attention [row, layer, head, width] that predicted token number `length` [row] of each slot.

        For a single slot, without the axis of rows.
        """
        self._attention[slots, length] = attention

    def read(self, search: Search) -> tuple[Hypothesis, ...]:
        """Return what a search that is over has found, best first, at most n_best."""
        if len(search.slots) == 1:
            return (self._read_single(search),)
        options = search.request.search

        def score(finished: FinishedHypothesis) -> float:
            return length_normalised(finished.total, finished.length + 1, options.length_penalty)

        best = sorted(search.finished, key=lambda finished: -score(finished))[: options.n_best]
        found = [self._read_from_beam(search, finished) for finished in best]
        # Their own scores are summed up exactly, so that they may differ in the last digits.
        found.sort(key=lambda hypothesis: -hypothesis.score)
        return tuple(found)

    def _read_from_beam(self, search: Search, last: FinishedHypothesis) -> Hypothesis:
        # Where each token lies, and where the attention that predicted it, in flat arrays, from the last to the first.
        owned: list[int] = search.slots.tolist()
        slot = owned[last.parent]
        tokens_at: list[int] = []
        attention_at = [slot * self.steps + last.length]
        for step in range(last.length - 1, -1, -1):
            tokens_at.append(slot * self.steps + step)
            slot = owned[self.parents.item(slot, step)]
            attention_at.append(slot * self.steps + step)
        count = last.length + (not last.ended)
        tokens = np.empty(count, dtype=np.int64)
        log_probs = np.empty(count, dtype=np.float32)
        if tokens_at:
            tokens[: last.length] = self.tokens.take(tokens_at[::-1])
            log_probs[: last.length] = self.log_probs.take(tokens_at[::-1])
        if not last.ended:
            tokens[-1] = last.token
            log_probs[-1] = last.log_prob
        return self._hypothesis(
            search.request,
            tokens,
            log_probs,
            last.log_prob if last.ended else 0.0,
            self._flat_attention.take(attention_at[::-1], axis=0)[..., : search.positions],
            FinishReason.END if last.ended else FinishReason.LENGTH,
        )

    def _read_single(self, search: Search) -> Hypothesis:
        """As `_read_from_beam`, for a search of one slot: nothing was inherited, all of it lies in one place."""
        slot = int(search.slots[0])
        (last,) = search.finished
        if search.request.forced_target is not None:
            count, reason = len(search.request.forced_target), FinishReason.FORCED
        else:
            # The last token is in the store, too; one that ends the sentence is no part of the target.
            count = last.length + (not last.ended)
            reason = FinishReason.END if last.ended else FinishReason.LENGTH
        has_end = reason is not FinishReason.LENGTH
        return self._hypothesis(
            search.request,
            self.tokens[slot, :count].copy(),
            self.log_probs[slot, :count].copy(),
            float(self.log_probs[slot, count]) if has_end else 0.0,
            self._attention[slot, : count + has_end, :, :, : search.positions].copy(),
            reason,
        )

    def _hypothesis(
        self,
        request: DecodeRequest,
        tokens: Ids,
        log_probs: Weights,
        end_log_prob: float,
        attention: Weights,
        reason: FinishReason,
    ) -> Hypothesis:
        """Make a hypothesis; `attention` [step, layer, head, source] has one step more if it has an end of sentence."""
        count = len(tokens)
        total = math.fsum(log_probs.tolist()) + end_log_prob
        # No step is fed the last token of what was cut off; the attention that predicted it stands in.
        steps = np.minimum(np.arange(self._lag, self._lag + count), len(attention) - 1) if self._lag else slice(count)
        aligned, attention = attention[steps], attention[:count]
        if self._only_head or not self._layers:
            alignment = aligned.reshape(count, attention.shape[-1])
        elif self._only_layer is not None:
            alignment = np.add.reduce(aligned[:, self._only_layer], axis=1) / np.float32(attention.shape[2])
        else:
            alignment = aligned[:, self._layers, self._heads].mean(axis=1)
        return Hypothesis(
            tokens=self._vocabulary.ids(tokens),
            log_probabilities=log_probs,
            end_log_probability=end_log_prob,
            score=length_normalised(total, count + (reason is not FinishReason.LENGTH), request.search.length_penalty),
            finish_reason=reason,
            alignment=alignment,
            attention=np.ascontiguousarray(attention.transpose(1, 2, 0, 3))
            if request.keep_attention and self._layers
            else None,
        )

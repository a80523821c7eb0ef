"""Turns translations into panels: labels of rows and columns, and the weights between them.

Does not know how panels are drawn.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.client.results import Hypothesis, Segment, Translation

_LONGEST_LABEL = 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """The soft alignment of one sentence.

    Attributes:
        rows: labels of the target, top to bottom.
        columns: labels of the source, left to right, without the end of sentence.
        weights: float32 [target, source], 0 to 1, without the end of sentence.
        end_weights: float32 [target], the attention paid to the end of sentence.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.float32]
    end_weights: NDArray[np.float32]


def panels_of(translations: Sequence[Translation]) -> tuple[Panel, ...]:
    """Return a panel for every sentence that has words and attention [target, source], in order.

    Attention per layer and head is averaged: a panel shows one matrix.
    """
    return tuple(
        _panel(segment, segment.hypotheses[0])
        for translation in translations
        for segment in translation.segments
        if segment.hypotheses and segment.hypotheses[0].attention is not None and segment.hypotheses[0].words
    )


def label(text: str) -> str:
    """Return the text as one short line: no control characters, an ellipsis in place of what is too long."""
    clean = "".join(" " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character for character in text)
    clean = clean.strip()
    return clean if len(clean) <= _LONGEST_LABEL else f"{clean[: _LONGEST_LABEL - 1]}…"


def _panel(segment: Segment, hypothesis: Hypothesis) -> Panel:
    attention = hypothesis.attention
    assert attention is not None
    weights = attention.weights.mean(axis=(0, 1)) if attention.weights.ndim == 4 else attention.weights
    if attention.granularity == "word":
        rows = [word.text for word in hypothesis.words]
        columns = [word.text for word in segment.source_words]
    else:
        # A token without text stands for no character of its own; its piece is all there is to show.
        rows = [token.text.strip() or token.piece for token in hypothesis.tokens]
        columns = [token.text.strip() or token.piece for token in segment.source_tokens]
    return Panel(
        rows=tuple(label(row) for row in rows),
        columns=tuple(label(column) for column in columns[:-1]),
        weights=weights[:, :-1],
        end_weights=weights[:, -1],
    )

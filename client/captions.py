"""What a server answers about a picture, with a map of where every word looked.

Knows nothing of gRPC or protobuf, and does not draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.client.results import Hypothesis, ItemError, ModelReference, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """How a picture was read.

    A map covers the whole upright picture: its cell (row, column) is the part from column / columns to
    (column + 1) / columns of the width and from row / rows to (row + 1) / rows of the height, from the upper left.

    Attributes:
        format: JPEG, PNG, WEBP, GIF, BMP or TIFF.
        width: pixels of the upright picture, after its EXIF orientation was followed.
        height: the same.
        orientation: EXIF orientation, 1 to 8; 1 where the file has none.
        rows: cells of a map from top to bottom.
        columns: cells of a map from left to right.
    """

    format: str
    width: int
    height: int
    orientation: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Caption:
    """The answer to one picture.

    Attributes:
        text: the caption, empty where there is an error.
        hypotheses: best first; empty where there is an error.
        image: how the picture was read; None where there is an error.
        timing: where the time went; None where there is an error.
        error: set if this picture failed while others of the call did not.
        model: who wrote the caption.
        encoder_attention: how the cells of the picture looked at each other before anything was written, float32
            [layer, head, query row, query column, row, column]: the weights of one query cell sum to 1 over row and
            column. None if it was not asked for.
    """

    text: str
    hypotheses: tuple[Hypothesis, ...]
    image: Image | None
    timing: Timing | None
    error: ItemError | None
    model: ModelReference
    encoder_attention: NDArray[np.float32] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the best hypothesis."""
        return tuple(word.text for word in self.hypotheses[0].words) if self.hypotheses else ()

    @property
    def maps(self) -> NDArray[np.float32] | None:
        """Where each of `words` looked, float32 [word, row, column]; None if attention was not asked for.

        A map sums to 1, unless top_k dropped some of it. Attention per layer and head is averaged, and a word of
        several subwords has the mean of theirs.
        """
        attention = self.hypotheses[0].attention if self.hypotheses else None
        if attention is None:
            return None
        weights = attention.weights.mean(axis=(0, 1)) if attention.weights.ndim == 5 else attention.weights
        if attention.granularity == "word":
            return weights
        maps = np.zeros((len(self.hypotheses[0].words), *weights.shape[1:]), dtype=np.float32)
        for place, word in enumerate(self.hypotheses[0].words):
            tokens = weights[word.first_token : word.first_token + word.token_count]
            if len(tokens):
                maps[place] = tokens.mean(axis=0)
        return maps

"""Checks that a segment is within what a model and the engine can take, whatever was checked before.

A request that passes can be decoded, wherever it came from.
"""

from __future__ import annotations

import math

import numpy as np

from regard.server.engine.decoder import DecoderFacts
from regard.server.engine.engine_settings import EngineSettings
from regard.server.errors import InvalidRequest
from regard.server.request import DecodeRequest, Ids, Pixels

LONGEST_NGRAM = 16

# Beyond it a power of a length is no finite number.
_STEEPEST_PENALTY = 100.0


def check_request(request: DecodeRequest, facts: DecoderFacts, settings: EngineSettings) -> None:
    """Raise unless a request can be decoded.

    Raises:
        InvalidRequest: names the field, the limit and what was sent. An empty source is one of the reasons: a graph
            that reads a sequence of length zero may abort the process.
    """
    if facts.pixels is not None:
        _picture(request.source, facts.pixels)
    else:
        _within("source", "tokens", len(request.source), 1, facts.max_source_tokens)
        _known("source", request.source, facts)
    if request.keep_encoder_attention and not facts.encoder_attention:
        raise InvalidRequest("keep_encoder_attention", "is set, but the model has no such attention")
    search = request.search
    penalty = search.length_penalty
    if not math.isfinite(penalty) or abs(penalty) > _STEEPEST_PENALTY:
        raise InvalidRequest(
            "search.length_penalty", f"must be between {-_STEEPEST_PENALTY} and {_STEEPEST_PENALTY}, but is {penalty}"
        )
    if request.forced_target is not None:
        _within("forced_target", "tokens", len(request.forced_target), 0, facts.max_target_tokens)
        _known("forced_target", request.forced_target, facts)
        return
    _within("search.beam_size", "hypotheses", search.beam_size, 1, settings.widest_beam)
    _within("search.n_best", "hypotheses", search.n_best, 1, search.beam_size)
    _within("search.max_length", "tokens", search.max_length, 1, None)
    _within("search.min_length", "tokens", search.min_length, 0, search.max_length)
    _within("search.no_repeat_ngram", "tokens", search.no_repeat_ngram, 0, LONGEST_NGRAM)


def _within(field: str, unit: str, value: int, least: int, most: int | None) -> None:
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise InvalidRequest(field, f"must be {bounds} {unit}, but is {value}")


def _picture(source: Ids | Pixels, size: tuple[int, int]) -> None:
    # Another shape would be read as other pixels, and another type is another input of the graph.
    if source.dtype != np.uint8 or source.shape != (*size, 3):
        raise InvalidRequest("source", f"must be uint8 {(*size, 3)}, but is {source.dtype} {source.shape}")


def _known(field: str, ids: Ids | Pixels, facts: DecoderFacts) -> None:
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise InvalidRequest(field, f"must be int64 [tokens], but is {ids.dtype} {ids.shape}")
    # A negative id would silently read the embedding from the other end.
    if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < facts.vocabulary_size):
        raise InvalidRequest(
            field, f"ids must be 0 to {facts.vocabulary_size - 1}, but are {int(ids.min())} to {int(ids.max())}"
        )

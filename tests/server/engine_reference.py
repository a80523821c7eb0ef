"""Searches for one request alone, in plain Python, slowly and obviously: what the engine's answers are held to.

It knows a model only as a function of source and prefix, and nothing of rows, batches or time.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tests.server.engine_fakes import END, SUPPRESSED, Attend, Prefix, Score

from regard.server.request import DecodeRequest, FinishReason

# What an impossible token of a given target costs.
FLOOR = -1e4
FALLBACK = 4


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A hypothesis that the engine should find."""

    tokens: Prefix
    score: float
    reason: FinishReason
    log_probabilities: tuple[float, ...]
    end_log_probability: float


class Broken(Exception):
    """The model gave NaN or +inf for a token that may follow."""


def allowed(score: Score, source: Prefix, prefix: Prefix, *, minimum: int, ngram: int = 0) -> dict[int, float]:
    """Return the tokens that may follow a prefix, with their log-probabilities.

    Raises:
        Broken: one of these is NaN or +inf.
    """
    scores = score(source, prefix).tolist()
    banned = {*SUPPRESSED, *((END,) if len(prefix) < minimum else ())}
    found = {token: value for token, value in enumerate(scores) if token not in banned and value != -math.inf}
    fresh = {token: value for token, value in found.items() if token == END or not repeats((*prefix, token), ngram)}
    if found and not fresh and scores[END] > -math.inf:
        # Ending too early is better than saying it all again.
        return {END: scores[END]}
    if not all(value < math.inf for value in fresh.values()):
        raise Broken
    return fresh


def repeats(tokens: Prefix, ngram: int) -> bool:
    """Tell whether the last `ngram` tokens stand together somewhere before, too; never for 0."""
    runs = [tokens[start : start + ngram] for start in range(len(tokens) - ngram + 1)]
    return ngram > 0 and bool(runs) and runs[-1] in runs[:-1]


def make(
    score: Score, source: Prefix, tokens: Prefix, *, ended: bool, penalty: float, forced: bool = False
) -> Expected:
    """Return a target with its score, computed from the model alone."""
    values = [max(float(score(source, tokens[:step])[token]), FLOOR) for step, token in enumerate(tokens)]
    end = max(float(score(source, tokens)[END]), FLOOR) if ended else 0.0
    count = max(len(tokens) + ended, 1)
    reason = FinishReason.FORCED if forced else FinishReason.END if ended else FinishReason.LENGTH
    return Expected(
        tokens=tokens,
        score=(sum(values) + end) / count**penalty,
        reason=reason,
        log_probabilities=tuple(values),
        end_log_probability=end,
    )


def search(score: Score, request: DecodeRequest, *, limit: int) -> list[Expected]:
    """Return what the search rule finds for one request, best first, in at most `limit` tokens.

    Raises:
        Broken: the model gave NaN or +inf where the search came by.
    """
    source: Prefix = tuple(request.source.tolist())
    options = request.search
    if request.forced_target is not None:
        target: Prefix = tuple(request.forced_target.tolist())
        for length in range(len(target) + 1):
            allowed(score, source, target[:length], minimum=0)
        return [make(score, source, target, ended=True, penalty=options.length_penalty, forced=True)]
    beams = options.beam_size
    live: list[tuple[float, Prefix]] = [(0.0, ())]
    finished: list[Expected] = []
    for length in range(1, limit + 1):
        grown = [
            (total + value, (*prefix, token))
            for total, prefix in live
            for token, value in allowed(
                score, source, prefix, minimum=options.min_length, ngram=options.no_repeat_ngram
            ).items()
        ]
        if not grown and not finished:
            # Nothing may follow: the fallback token does, at a price.
            grown = [(live[0][0] + FLOOR, (*live[0][1], FALLBACK))]
        grown.sort(key=lambda entry: -entry[0])
        grown = grown[: 2 * beams]
        penalty = options.length_penalty
        live = [entry for entry in grown if entry[1][-1] != END][:beams]
        ending = [
            make(score, source, tokens[:-1], ended=True, penalty=penalty)
            for _, tokens in grown[:beams]
            if tokens[-1] == END
        ]
        if length == limit:
            ending += [make(score, source, tokens, ended=False, penalty=penalty) for _, tokens in live]
        finished += ending[: beams - len(finished)]
        if len(finished) == beams or not live:
            break
    finished.sort(key=lambda entry: -entry.score)
    return finished[: options.n_best]


def exhaustive(score: Score, request: DecodeRequest, *, limit: int) -> list[Expected]:
    """Return every possible target, best first."""
    source: Prefix = tuple(request.source.tolist())
    penalty = request.search.length_penalty
    words = allowed(score, source, (), minimum=1)
    found = [
        make(score, source, tokens, ended=length < limit, penalty=penalty)
        for length in range(limit + 1)
        for tokens in itertools.product(words, repeat=length)
    ]
    return sorted(found, key=lambda entry: -entry.score)


def attention(attend: Attend, request: DecodeRequest, tokens: Prefix) -> NDArray[np.float32]:
    """Return the attention [layer, head, target, source] that predicts each of the tokens."""
    source: Prefix = tuple(request.source.tolist())
    rows = [attend(source, tokens[:step]) for step in range(len(tokens))]
    if not rows:
        layers, heads, width = attend(source, ()).shape
        return np.zeros((layers, heads, 0, width), dtype=np.float32)
    return np.stack(rows, axis=2)

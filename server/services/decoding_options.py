"""Reads and validates the decoding options of a request: beam size, n-best, lengths, penalties, n-gram blocking."""

from __future__ import annotations

from dataclasses import dataclass

from regard.contract.bundle import LoadedBundle
from regard.contract.tasks import Task
from regard.server.bounds import check_within, longest_target
from regard.server.engine.request_check import LONGEST_NGRAM
from regard.server.errors import InvalidRequest
from regard.server.request import SearchOptions
from regard.server.settings import Limits
from regard.v1 import decoding_pb2

DEFAULT_BEAM_SIZE = 1
DEFAULT_N_BEST = 1
DEFAULT_LENGTH_PENALTY = 1.0
# A captioner repeats itself on unfamiliar pictures; a translation has to repeat what its source repeats.
DEFAULT_NO_REPEAT_NGRAM = {Task.TRANSLATION: 0, Task.CAPTIONING: 3}
MAX_LENGTH_PENALTY = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """How a caller wants to search, independent of the source. A `max_length` of None leaves it to the server."""

    beam_size: int
    n_best: int
    length_penalty: float
    min_length: int
    max_length: int | None
    no_repeat_ngram: int = 0

    def for_segment(self, source_tokens: int, bundle: LoadedBundle) -> SearchOptions:
        """Search options for a segment, clipped to the lengths that so many source tokens, </s> included, may have."""
        return self._within(longest_target(source_tokens, bundle.max_target_tokens))

    def for_picture(self, bundle: LoadedBundle) -> SearchOptions:
        """Search options for a picture, with lengths clipped to the model's limit: a picture's size implies none."""
        return self._within(bundle.max_target_tokens)

    def _within(self, bound: int) -> SearchOptions:
        max_length = bound if self.max_length is None else min(self.max_length, bound)
        return SearchOptions(
            beam_size=self.beam_size,
            n_best=self.n_best,
            length_penalty=self.length_penalty,
            min_length=min(self.min_length, max_length),
            max_length=max_length,
            no_repeat_ngram=self.no_repeat_ngram,
        )


def read_decoding(options: decoding_pb2.DecodingOptions, *, bundle: LoadedBundle, limits: Limits) -> DecodingOptions:
    """Check all options against the limits of the server and of the model.

    Raises:
        InvalidRequest: names the field, the limit and what was sent.
    """
    beam_size = options.beam_size if options.HasField("beam_size") else DEFAULT_BEAM_SIZE
    check_within("decoding.beam_size", beam_size, 1, limits.max_beam_size)
    n_best = options.n_best if options.HasField("n_best") else DEFAULT_N_BEST
    check_within("decoding.n_best", n_best, 1, beam_size, "beam_size")
    penalty = options.length_penalty if options.HasField("length_penalty") else DEFAULT_LENGTH_PENALTY
    check_length_penalty("decoding.length_penalty", penalty)
    max_length = options.max_length if options.HasField("max_length") else None
    if max_length is not None:
        check_within("decoding.max_length", max_length, 1, bundle.max_target_tokens)
    most, what = (bundle.max_target_tokens, "") if max_length is None else (max_length, "max_length")
    check_within("decoding.min_length", options.min_length, 0, most, what)
    size = options.no_repeat_ngram if options.HasField("no_repeat_ngram") else DEFAULT_NO_REPEAT_NGRAM[bundle.task]
    check_within("decoding.no_repeat_ngram", size, 0, LONGEST_NGRAM)
    return DecodingOptions(
        beam_size=beam_size,
        n_best=n_best,
        length_penalty=penalty,
        min_length=options.min_length,
        max_length=max_length,
        no_repeat_ngram=size,
    )


def check_length_penalty(field: str, value: float) -> None:
    """Raise unless the exponent is within bounds.

    Raises:
        InvalidRequest: names the field and the bounds.
    """
    # NaN fails this comparison, so it is rejected too.
    if not 0 <= value <= MAX_LENGTH_PENALTY:
        raise InvalidRequest(field, f"must be between 0 and {MAX_LENGTH_PENALTY}, got {value}")

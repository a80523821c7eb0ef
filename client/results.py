"""What a server answers, as frozen dataclasses with the texts already cut out.

Knows nothing of gRPC or protobuf: `regard.client.replies` makes these from messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Granularity = Literal["subword", "word"]
FinishReason = Literal["end", "length", "forced"]
Task = Literal["translation", "captioning", ""]  # empty: one that this client does not know


class Span(NamedTuple):
    """A half-open range of UTF-8 byte offsets: `text.encode()[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One subword.

    Attributes:
        id: index in the vocabulary of the model.
        piece: the subword as the vocabulary writes it.
        text: the characters of the text that it stands for; empty for the end of sentence.
        span: where they stand, in the original text (source) or in the text of the hypothesis (target).
        log_probability: natural logarithm of the probability that the model gave it; None for source tokens.
    """

    id: int
    piece: str
    text: str
    span: Span
    log_probability: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A run of tokens, [first_token, first_token + token_count). The end of sentence is a word with empty text."""

    text: str
    span: Span
    first_token: int
    token_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """A target word and the source word that it attended to most.

    Attributes:
        source_word: index into `Segment.source_words`.
        target_word: index into `Hypothesis.words`.
        source_text: the source word; empty for the end of sentence.
        target_text: the target word.
        source_span: bytes of the original text.
        target_span: bytes of the text of the hypothesis.
        weight: attention that the target word paid to the source word, 0 to 1.
    """

    source_word: int
    target_word: int
    source_text: str
    target_text: str
    source_span: Span
    target_span: Span
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attention:
    """What every target position looked at.

    Attributes:
        weights: float32 [target, source] or [layer, head, target, source]; of a picture, [target, row, column] or
            [layer, head, target, row, column]. They sum to 1 over the source, unless top_k dropped some; what was
            dropped is 0 here.
        axes: names of the axes of `weights`.
        granularity: whether positions are tokens or words.
        layers: which layers the first axis holds, where there is one.
        heads: which heads the second axis holds, where there is one.
    """

    weights: NDArray[np.float32]
    axes: tuple[str, ...]
    granularity: Granularity
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One translation of a sentence, or one caption of a picture.

    Attributes:
        text: the translation or caption.
        score: mean log-probability, with the length penalty asked for; best is highest.
        finish_reason: `end` if the model ended the sentence, `length` if it was cut, `forced` if the caller gave it.
        tokens: the rows of subword attention; the end of sentence is not among them.
        words: the rows of word attention.
        end_log_probability: of the end of sentence after the last token; 0 if it was not generated.
        alignments: of a translation, for every target word the source word that it attended to most.
        attention: only if it was asked for.
    """

    text: str
    score: float
    finish_reason: FinishReason
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    end_log_probability: float
    alignments: tuple[Alignment, ...]
    attention: Attention | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Where the time of a sentence or picture went; `mean_batch_rows` counts the rows in its decode steps."""

    queue_seconds: float
    encode_seconds: float
    decode_seconds: float
    steps: int
    mean_batch_rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One sentence of a text.

    Attributes:
        text: the sentence.
        source_span: where it stands in the original text.
        source_tokens: the columns of subword attention, the end of sentence last.
        source_words: the columns of word attention, the end of sentence last.
        hypotheses: best first; never empty.
        timing: where the time went.
    """

    text: str
    source_span: Span
    source_tokens: tuple[Token, ...]
    source_words: tuple[Word, ...]
    hypotheses: tuple[Hypothesis, ...]
    timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReference:
    """Which model answered; `digest` is the sha256 of its manifest, `profile` the graphs that ran."""

    name: str
    version: str
    digest: str
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemError:
    """Why one text or picture of many failed.

    Attributes:
        code: a number of google.rpc.Code.
        message: what is wrong, in words.
        field: what is at fault, for example `texts[3]` or `images[3]`.
    """

    code: int
    message: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The answer to one text.

    Attributes:
        text: the translation, empty where there is an error.
        segments: the sentences, in order; none for a blank text.
        error: set if this text failed while others of the call did not.
        model: who translated.
    """

    text: str
    segments: tuple[Segment, ...]
    error: ItemError | None
    model: ModelReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The answer to one scored pair: a segment with one hypothesis, whose text is the given target; or an error."""

    segment: Segment | None
    error: ItemError | None
    model: ModelReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that a server holds; languages are BCP-47 tags, and one that reads pictures has no source languages."""

    name: str
    version: str
    digest: str
    task: Task
    source_languages: tuple[str, ...]
    target_languages: tuple[str, ...]
    profile: str
    is_default: bool
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetails:
    """A model with its manifest, a `regard.v1.Bundle` as a dict in the form of canonical protobuf JSON."""

    model: Model
    manifest: dict[str, object]

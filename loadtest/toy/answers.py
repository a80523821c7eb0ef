"""Makes the answers of the toy server: echoes, with tokens, words and attention of known values.

It does not know who asked, nor how long an answer takes.
"""

import numpy as np

from regard.v1.attention_pb2 import ATTENTION_ENCODING_FLOAT32, Attention, Span, Token, Word
from regard.v1.captioning_pb2 import CaptionResult, Image
from regard.v1.decoding_pb2 import FINISH_REASON_END, FINISH_REASON_FORCED, Hypothesis, ItemError, Timing
from regard.v1.translation_pb2 import Segment

# Cells of a map, in rows and columns.
CELLS = 7
INVALID_ARGUMENT = 3  # google.rpc.Code


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    for number, word in enumerate(text.split()):
        start = text.encode().index(word.encode(), at)
        at = start + len(word.encode())
        tokens.append(Token(id=number + 4, piece=word, span=Span(start=start, end=at), log_probability=-0.1))
    return tokens


def segments(text: str, rows: int, *, attention: bool) -> list[Segment]:
    """A translation that is its source, after so many rows in a step; `attention` adds attention."""
    if not text.strip():
        return []
    hypothesis = Hypothesis(text=text, score=-0.1, finish_reason=FINISH_REASON_END, tokens=_tokens(text))
    if attention:
        hypothesis.attention.CopyFrom(aligned(text, text).hypotheses[0].attention)
    span = Span(start=0, end=len(text.encode()))
    timing = Timing(steps=len(hypothesis.tokens), mean_batch_rows=rows)
    return [Segment(source_span=span, source_tokens=_tokens(text), hypotheses=[hypothesis], timing=timing)]


def aligned(source: str, target: str) -> Segment:
    """A given translation, whose tokens look at the source along the diagonal."""
    columns = [*_tokens(source), Token(id=3, piece="</s>")]
    rows = _tokens(target)
    weights = np.full((len(rows), len(columns)), 0.1 / len(columns), dtype="<f4")
    for i in range(len(rows)):
        weights[i, min(i, len(columns) - 2)] += 0.9
    attention = Attention(
        axes=["target", "source"], shape=weights.shape, encoding=ATTENTION_ENCODING_FLOAT32, values=weights.tobytes()
    )
    hypothesis = Hypothesis(text=target, finish_reason=FINISH_REASON_FORCED, tokens=rows, attention=attention)
    return Segment(source_tokens=columns, hypotheses=[hypothesis])


def captioned(text: str, rows: int, *, attention: bool) -> CaptionResult:
    """A caption, whose words look at the middle if `attention`; without text it is a picture that failed alone."""
    if not text:
        return CaptionResult(error=ItemError(code=INVALID_ARGUMENT, message="no bytes"))
    tokens = _tokens(text)
    words = [Word(span=token.span, first_token=i, token_count=1) for i, token in enumerate(tokens)]
    hypothesis = Hypothesis(text=text, score=-0.1, finish_reason=FINISH_REASON_END, tokens=tokens, words=words)
    if attention:
        maps = np.full((len(words), CELLS, CELLS), 0.5 / CELLS**2, dtype="<f4")
        maps[:, CELLS // 2, CELLS // 2] += 0.5
        axes = ["target", "row", "column"]
        found = Attention(axes=axes, shape=maps.shape, encoding=ATTENTION_ENCODING_FLOAT32, values=maps.tobytes())
        hypothesis.attention.CopyFrom(found)
    image = Image(format="PNG", width=1, height=1, orientation=1, rows=CELLS, columns=CELLS)
    timing = Timing(steps=len(tokens), mean_batch_rows=rows)
    return CaptionResult(text=text, hypotheses=[hypothesis], image=image, timing=timing)


def as_text(image: bytes) -> str:
    """What a file says that is text; of any other, that it is a picture."""
    return image.decode("ascii").strip() if image.isascii() else "a picture"

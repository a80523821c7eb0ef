"""Tokenises text into ids with exact spans, and renders ids as text.

Text is plain text: tags, placeholders and addresses are words like any other. Control characters and byte order marks
count as white space. A bundle may ask for more: typographic marks written plainly, sentences in capitals read in small
letters; spans are those of the caller's text all the same. Characters that the vocabulary does not know, emoji among
them, become <unk>, which models never write: they are missing from a translation, and the words around them are
translated. A sentence of nothing else is not given to a model, which would make something up; its translation is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.contract.bundle import LoadedBundle
from regard.contract.errors import BundleError as ContractError
from regard.contract.vocabulary import open_tokenizer
from regard.server.errors import BundleError, InvalidRequest
from regard.server.request import Ids
from regard.server.text.segmentation import Span, blank_invisible, drop_invisible, find_sentences
from regard.server.text.spans import ByteOffsets, find_ends, partition
from regard.server.text.word_grouping import TextToken, Word, group_tokens
from regard.text.capitals import is_in_capitals, to_capitals, to_sentence
from regard.text.typography import PlainText, write_plainly

# A sentence with more characters than this for each token that it may have is refused before it is tokenised, which
# takes time in proportion. Subwords have 3 to 5 characters on average.
CHARACTERS_PER_TOKEN = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceSegment:
    """One sentence, ready for the engine. All spans are UTF-8 bytes of the ORIGINAL text.

    Attributes:
        ids: [source], end of sentence last.
        start, end: of the sentence, without the white space around it.
        tokens: one for each id; the end of sentence has the empty span [end, end). The others hold every character of
            the sentence but white space, once.
        words: runs of tokens; the end of sentence is the last one.
        capitals: whether it is all in capitals, and was read in small letters.
        known: whether the vocabulary knows anything of it. If not, a model is not to be asked for a translation.
    """

    ids: Ids
    start: int
    end: int
    tokens: tuple[TextToken, ...]
    words: tuple[Word, ...]
    capitals: bool
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedTarget:
    """What ids say. Spans are UTF-8 bytes of `text`; the end of sentence is not among the tokens.

    Attributes:
        text: for readers, without white space at its ends.
        tokens: one for each id; they hold every character of the text but white space, once.
        words: runs of tokens.
    """

    text: str
    tokens: tuple[TextToken, ...]
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedTarget:
    """A given target text as ids [target], without end of sentence, and its tokens and words."""

    ids: Ids
    rendered: RenderedTarget


class TextPipeline:
    """Text to ids and back for one bundle; safe to use from several threads at once."""

    def __init__(self, bundle: LoadedBundle) -> None:
        try:
            self._tokenizer = open_tokenizer(bundle.tokenizer_path)
        except ContractError as error:
            raise BundleError(f"bundle {bundle.directory}: {error}") from error
        self._language = next(iter(bundle.manifest.source_languages), "en")
        self._max_source_tokens = bundle.max_source_tokens
        self._max_target_tokens = bundle.max_target_tokens
        self._predictable = bundle.ports.predictable
        self._rules = bundle.manifest.text_rules
        self._unknown_id = bundle.unknown_id
        self._end_id = bundle.eos_id
        self._silent = frozenset((bundle.pad_id, bundle.unknown_id, bundle.bos_id, bundle.eos_id))

    def prepare(
        self,
        text: str,
        *,
        split: bool = True,
        field: str = "text",
        max_segments: int | None = None,
        end_id: int | None = None,
    ) -> tuple[SourceSegment, ...]:
        """Cut a text into sentences and these into tokens.

        Args:
            text: whatever a caller sent.
            split: whether to cut sentences; otherwise the text is one segment.
            field: what errors call the text.
            max_segments: sentences allowed; more are refused before any is tokenised.
            end_id: what ends a source, None for the end of sentence: a model of several languages is told by it which
                one is wanted.

        Returns:
            One segment for each sentence; none for a blank text.

        Raises:
            InvalidRequest: there are too many sentences, one has too many tokens, or the text is not Unicode.
        """
        last = self._end_id if end_id is None else end_id
        offsets = _byte_offsets(text, field)
        clean = blank_invisible(text)
        sentences = find_sentences(clean, language=self._language) if split else _whole(clean)
        if max_segments is not None and len(sentences) > max_segments:
            raise InvalidRequest(field, f"has {len(sentences)} sentences; the limit is {max_segments}")
        segments: list[SourceSegment] = []
        for span in sentences:
            ids, starts = self._encode(clean, span, offsets, limit=self._max_source_tokens, ending=1, field=field)
            tokens, words = self._describe(clean, span, ids, starts, offsets)
            known = any(token.id != self._unknown_id and token.start < token.end for token in tokens)
            end = offsets[span.end]
            tokens.append(TextToken(last, self._piece(last), end, end))
            words.append(Word(end, end, len(ids), 1))
            segments.append(
                SourceSegment(
                    ids=np.array([*ids, last], dtype=np.int64),
                    start=offsets[span.start],
                    end=end,
                    tokens=tuple(tokens),
                    words=tuple(words),
                    capitals=self._in_capitals(clean[span.start : span.end]),
                    known=known,
                )
            )
        return tuple(segments)

    def join(self, text: str, segments: Sequence[SourceSegment], translations: Sequence[str]) -> str:
        """Put one translation for each segment where the segment stood, keeping what stood between them.

        White space at the ends of the text is dropped, and so are control characters. Without segments nothing is left.
        """
        if not segments:
            return ""
        raw = text.encode()
        parts: list[str] = []
        position = 0
        for segment, translation in zip(segments, translations, strict=True):
            parts += (drop_invisible(raw[position : segment.start].decode()), translation)
            position = segment.end
        parts.append(drop_invisible(raw[position:].decode()))
        return "".join(parts).strip()

    def render(self, ids: Sequence[int] | Ids, *, capitals: bool = False) -> RenderedTarget:
        """Write ids, without end of sentence, as text, in capitals if so asked.

        Special tokens say nothing. Ids must be entries of the vocabulary.
        """
        listed = [int(index) for index in ids]
        spoken = [index for index in listed if index not in self._silent]
        decoded = self._tokenizer.decode(spoken, skip_special_tokens=False)
        text = decoded.strip()
        dropped = len(decoded) - len(decoded.lstrip())
        ends = iter(
            find_ends(
                [self._piece(index) for index in spoken],
                decoded,
                lambda count: self._tokenizer.decode(spoken[:count], skip_special_tokens=False),
            )
        )
        starts: list[int] = []
        position = 0
        for index in listed:
            starts.append(min(max(position - dropped, 0), len(text)))
            if index not in self._silent:
                position = next(ends)
        text = to_capitals(text) if capitals else text
        tokens, words = self._describe(text, Span(0, len(text)), listed, starts, ByteOffsets(text))
        return RenderedTarget(text=text, tokens=tuple(tokens), words=tuple(words))

    def encode_target(self, text: str, *, field: str = "target") -> EncodedTarget:
        """Turn a given target, taken as one sentence, into ids without end of sentence; a blank one has none.

        Tokens that the model can never write count as unknown ones, so that every target has a score.

        Raises:
            InvalidRequest: it has too many tokens, or is not Unicode.
        """
        offsets = _byte_offsets(text, field)
        clean = blank_invisible(text)
        ids: list[int] = []
        tokens: list[TextToken] = []
        words: list[Word] = []
        for span in _whole(clean):
            read, starts = self._encode(clean, span, offsets, limit=self._max_target_tokens, ending=0, field=field)
            ids = [index if index < self._predictable else self._unknown_id for index in read]
            tokens, words = self._describe(clean, span, ids, starts, offsets)
        rendered = RenderedTarget(text=text, tokens=tuple(tokens), words=tuple(words))
        return EncodedTarget(ids=np.array(ids, dtype=np.int64), rendered=rendered)

    def _encode(
        self, text: str, span: Span, offsets: ByteOffsets, *, limit: int, ending: int, field: str
    ) -> tuple[list[int], list[int]]:
        """Ids of one sentence, without its end, and the character of the sentence where each token starts.

        The limit counts `ending` tokens more.
        """
        sentence = text[span.start : span.end]
        where = f"the sentence at bytes {offsets[span.start]} to {offsets[span.end]}"
        if len(sentence) > CHARACTERS_PER_TOKEN * limit:
            raise InvalidRequest(
                field,
                f"{where} has {len(sentence)} characters; the limit is {limit} tokens, "
                f"and no more than {CHARACTERS_PER_TOKEN * limit} characters are tried",
            )
        plain = self._make_ready(sentence)
        encoding = self._tokenizer.encode(plain.text)
        count = len(encoding.ids) - 1
        if count + ending > limit:
            counted = "included" if ending else "not counted"
            raise InvalidRequest(
                field, f"{where} has {count + ending} tokens; the limit is {limit}, end of sentence {counted}"
            )
        places = (*plain.places, len(sentence))
        return encoding.ids[:count], [places[start] for start, _ in encoding.offsets[:count]]

    def _make_ready(self, sentence: str) -> PlainText:
        """Write a sentence as the model is to read it, by the rules of its bundle."""
        if self._in_capitals(sentence):
            sentence = to_sentence(sentence)
        if self._rules.plain_marks:
            plain = write_plainly(sentence)
            # Of nothing but invisible marks something has to stay, or the sentence would have no token.
            if plain.text.strip():
                return plain
        return PlainText(text=sentence, places=tuple(range(len(sentence))))

    def _in_capitals(self, sentence: str) -> bool:
        return self._rules.capitals and is_in_capitals(sentence)

    def _describe(
        self, text: str, span: Span, ids: Sequence[int], starts: Sequence[int], offsets: ByteOffsets
    ) -> tuple[list[TextToken], list[Word]]:
        """Tokens and words of one sentence, in bytes of the text."""
        sentence = text[span.start : span.end]
        spans = partition(sentence, starts)
        base = span.start
        tokens = [
            TextToken(index, self._piece(index), offsets[base + start], offsets[base + end])
            for index, (start, end) in zip(ids, spans, strict=True)
        ]
        words = [
            Word(tokens[first].start, tokens[first + count - 1].end, first, count)
            for first, count in group_tokens(sentence, spans)
        ]
        return tokens, words

    def _piece(self, index: int) -> str:
        return self._tokenizer.id_to_token(index) or ""


def _byte_offsets(text: str, field: str) -> ByteOffsets:
    try:
        return ByteOffsets(text)
    except UnicodeEncodeError as error:
        raise InvalidRequest(field, f"is not valid Unicode: unpaired surrogate at character {error.start}") from None


def _whole(text: str) -> list[Span]:
    """The text without white space at its ends, as the only sentence, if there is any of it."""
    stripped = text.strip()
    start = len(text) - len(text.lstrip())
    return [Span(start, start + len(stripped))] if stripped else []

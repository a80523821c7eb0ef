"""Splits a text into sentences and returns their character spans; the rules of each language are `sentencex`'s."""

from __future__ import annotations

import re
from typing import NamedTuple

import sentencex

# Characters of a line that the library is given at once.
_WINDOW = 1024
# A line is never joined to the next, for lists and titles have no full stop.
_LINE = re.compile(r"[^\n\r\v\f\u2028\u2029]+")
_SPACE = re.compile(r"\s")
# A number with a point at the start of an item of a list, which is no sentence.
_LIST_MARK = re.compile(r"\s*\(?[0-9]{1,3}[.)]\s*")
# Control characters and byte order marks that no text means to show; white space is not among them.
_INVISIBLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff]")


class Span(NamedTuple):
    """Characters [start, end) of a text."""

    start: int
    end: int


def blank_invisible(text: str) -> str:
    """The text with a space for every control character and byte order mark, so that offsets stay."""
    return _INVISIBLE.sub(" ", text)


def drop_invisible(text: str) -> str:
    """The text without control characters and byte order marks; a space where nothing else would be left of it."""
    return _INVISIBLE.sub("", text) or (" " if text else "")


def find_sentences(text: str, *, language: str) -> list[Span]:
    """Find the sentences of a text, in order.

    Args:
        text: any characters; `blank_invisible` has been applied.
        language: BCP-47 tag; one that the library does not know gets its general rules.

    Returns:
        Spans without white space at their ends, never empty. Only white space is outside of them.
    """
    primary = language.split("-")[0].lower()
    sentences: list[Span] = []
    for line in _LINE.finditer(text):
        cuts = [line.start() + cut for cut in _cut_line(line.group(), primary)]
        for start, end in zip([line.start(), *cuts], [*cuts, line.end()], strict=True):
            sentence = text[start:end]
            stripped = sentence.strip()
            if stripped:
                begin = start + len(sentence) - len(sentence.lstrip())
                sentences.append(Span(begin, begin + len(stripped)))
    return sentences


def _cut_line(line: str, language: str) -> list[int]:
    """Offsets inside a line at which a sentence begins, but for the first."""
    cuts = [0]
    for start in _ask_library(line, language):
        # Whatever the library says, sentences are in order and none of the line is lost.
        if cuts[-1] < start < len(line) and not _LIST_MARK.fullmatch(line, cuts[-1], start):
            cuts.append(start)
    return cuts[1:]


def _ask_library(line: str, language: str) -> list[int]:
    """Return where sentences of a line begin, asking about a window of it at a time.

    With unbalanced quotes the library takes time in the square of what it is given, and holds the GIL meanwhile. What
    it says of a window's second half may change with what follows, so the next window begins at the last sentence
    before that, or else at the last there is, or behind a window without any.
    """
    starts: list[int] = []
    place = 0
    while len(line) - place > _WINDOW:
        found = [start for start in _ask_about(line[place : place + _WINDOW], language) if start]
        settled = [start for start in found if start <= _WINDOW // 2] or found[-1:]
        starts += [place + start for start in settled]
        place += settled[-1] if settled else _WINDOW
    return starts + [place + start for start in _ask_about(line[place:], language) if start]


def _ask_about(line: str, language: str) -> list[int]:
    try:
        # It panics at some white space that is not ASCII: "B\u00a0. C".
        boundaries = sentencex.get_sentence_boundaries(language, _SPACE.sub(" ", line))
    except BaseException as error:
        # A panic in its Rust is no Exception, and only its name tells it apart. The line is then one sentence.
        if type(error).__name__ != "PanicException":
            raise
        return []
    return [boundary["start_index"] for boundary in boundaries]

"""Writes texts and word alignments for a terminal: nothing that could steer it, wrapped at its width.

Does not know which stream it writes for; the caller says how wide it is and whether it has colours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from regard.client.results import Hypothesis, Segment, Translation

NOTHING = "ø"

# Everything that some program takes for the end of a line.
_LINE_BREAKS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")

_DIM = "\x1b[2m"
_BLUE = "\x1b[34m"
_RESET = "\x1b[0m"


def one_line(text: str) -> str:
    """Return the text with a space in place of every line break."""
    return text.translate(_LINE_BREAKS)


def visible(text: str) -> str:
    """Return the text on one line, with U+FFFD for every control character, so that it cannot steer a terminal."""
    return "".join("\ufffd" if unicodedata.category(each) == "Cc" and each != "\t" else each for each in one_line(text))


def display_width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def alignment_lines(translation: Translation, *, width: int, colour: bool, indent: str = "  ") -> list[str]:
    """Return the links of a translation, `We→ø are→Estamos eating→comiendo`, wrapped at `width` columns.

    Every source word appears once, in order, with all target words that look at it most, joined by `+`; words that look
    at the end of sentence come last, as `ø→word`. Sentences begin on lines of their own.
    """
    lines: list[str] = []
    for segment in translation.segments:
        if segment.hypotheses:
            lines += _wrap(_links(segment, segment.hypotheses[0]), width=width, colour=colour, indent=indent)
    return lines


def _links(segment: Segment, hypothesis: Hypothesis) -> list[tuple[str, str]]:
    targets: dict[int, list[str]] = {}
    for alignment in hypothesis.alignments:
        targets.setdefault(alignment.source_word, []).append(visible(alignment.target_text))
    links = [
        (visible(word.text), "+".join(targets.get(place, [NOTHING])))
        for place, word in enumerate(segment.source_words)
        if word.text
    ]
    links += [
        (NOTHING, "+".join(targets[place]))
        for place, word in enumerate(segment.source_words)
        if not word.text and place in targets
    ]
    return links


def _wrap(links: Iterable[tuple[str, str]], *, width: int, colour: bool, indent: str) -> list[str]:
    lines: list[str] = []
    used = 0
    for source, target in links:
        size = display_width(source) + 1 + display_width(target)
        shown = f"{_DIM}{source}→{_RESET}{_BLUE}{target}{_RESET}" if colour else f"{source}→{target}"
        if lines and used + 2 + size <= width:
            lines[-1] += f"  {shown}"
            used += 2 + size
        else:
            lines.append(indent + shown)
            used = len(indent) + size
    return lines

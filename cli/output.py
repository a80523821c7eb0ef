"""Writes translations and captions on stdout, and pictures of translations into files.

Does not know where they come from.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from regard.cli.failure import CommandFailed
from regard.cli.speech import say

if TYPE_CHECKING:
    from regard.client import Caption, Client, Translation
    from regard.v1.captioning_pb2 import CaptionResponse
    from regard.v1.translation_pb2 import TranslateResponse

_WIDTH_OF_FILES = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What stdout is.

    Attributes:
        is_one: whether a terminal, which control characters could steer, and no file or pipe.
        width: columns for what is wrapped.
        colour: whether it shows colours.
    """

    is_one: bool
    width: int
    colour: bool

    @classmethod
    def of(cls, stream: TextIO) -> Terminal:
        """Look at a stream and at the environment; NO_COLOR and TERM=dumb ask for no colours."""
        is_one = stream.isatty()
        colour = is_one and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        width = shutil.get_terminal_size().columns if is_one else _WIDTH_OF_FILES
        return cls(is_one=is_one, width=width, colour=colour)

    def say(self, text: str) -> None:
        """Write a text as one line, which cannot steer a terminal."""
        from regard.client.drawing.terminal import one_line, visible

        say(visible(text) if self.is_one else one_line(text))

    def bold(self, text: str) -> str:
        """Return the text in bold where there are colours."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Writes one translation after the other.

    Attributes:
        form: `lines` of text, `rows` of an n-best list, or `json`.
        alignments: whether links between words follow each line.
        terminal: what stdout is.
    """

    form: Literal["lines", "rows", "json"]
    alignments: bool
    terminal: Terminal

    def write(self, number: int, translation: Translation, reply: TranslateResponse) -> None:
        """Write the translation of text `number`, of which `reply` is the message."""
        if self.form == "json":
            from regard.client.batching.json_lines import json_line

            say(json_line(reply))
        elif self.form == "rows":
            for row in _rows(number, translation):
                self.terminal.say("\t".join(row))
        else:
            self.terminal.say(translation.text)
            if self.alignments:
                from regard.client.drawing.terminal import alignment_lines

                for line in alignment_lines(translation, width=self.terminal.width, colour=self.terminal.colour):
                    say(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionOutput:
    """Writes one caption after the other.

    Attributes:
        form: `lines` of text, `rows` of an n-best list, or `json`.
        named: whether the name of the picture stands before its caption.
        terminal: what stdout is.
    """

    form: Literal["lines", "rows", "json"]
    named: bool
    terminal: Terminal

    def write(self, name: str, caption: Caption, reply: CaptionResponse) -> None:
        """Write the caption of a picture, of which `reply` is the message."""
        if self.form == "json":
            from regard.client.batching.json_lines import json_line

            say(json_line(reply))
        elif self.form == "rows":
            for rank, each in enumerate(caption.hypotheses, start=1):
                self._row(name, str(rank), f"{each.score:.4f}", each.text)
        elif self.named:
            self._row(name, caption.text)
        else:
            self._row(caption.text)

    def _row(self, *cells: str) -> None:
        self.terminal.say("\t".join(cell.replace("\t", " ") for cell in cells))


def draw(
    client: Client, translations: Sequence[Translation], path: Path, *, timeout: float, target: str | None = None
) -> tuple[Path, ...]:
    """Draw the attention of translations into a file, and further ones if need be; return their names.

    target is the language that was asked for; a model that is not told takes its first one.

    Raises:
        CommandFailed: there is nothing to draw.
    """
    from regard.client.batching.languages import direction
    from regard.client.drawing.panels import panels_of
    from regard.client.drawing.pictures import write_attention

    panels = panels_of(translations)
    if not panels:
        raise CommandFailed(f"{path} was not drawn: no sentence was translated with attention")
    reference = translations[0].model
    model = client.model(reference.name, reference.version, timeout=timeout).model
    return write_attention(
        path,
        panels,
        title=direction(model.source_languages, (target,) if target else model.target_languages[:1]) or model.name,
        caption=f"{model.name} {model.version} · each row shows where the model looked to write that word",
    )


def _rows(number: int, translation: Translation) -> list[tuple[str, ...]]:
    return [
        (str(number), str(sentence), str(rank), f"{hypothesis.score:.4f}", hypothesis.text.replace("\t", " "))
        for sentence, segment in enumerate(translation.segments, start=1)
        for rank, hypothesis in enumerate(segment.hypotheses, start=1)
    ]

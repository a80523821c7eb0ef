"""Translates texts by a server, and prints the answers line by line.

Does not know how lines become calls: `regard.client.batching.lines`, `regard.client.batching.pipeline` and
`regard.client.batching.batches` do that.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from regard.cli.connection import add_connection_arguments, connect
from regard.cli.decoding import add_decoding_arguments, count, decoding_options
from regard.cli.failure import FAILED, OK, USAGE, CommandFailed
from regard.cli.output import Output, Terminal, draw
from regard.cli.progress import Progress
from regard.cli.speech import complain

if TYPE_CHECKING:
    from regard.client import Client, TranslateOptions, Translation
    from regard.client.batching.lines import Line
    from regard.v1.translation_pb2 import TranslateRequest, TranslateResponse

EXTRA = ""

_IN_FLIGHT = 4
_PICTURED_LINES = 6  # of stdin; all texts of the command line are pictured

_EPILOG = """\
examples:
  regard translate "We are eating bread."
  regard translate "We are eating bread." --alignments
  regard translate "Where did you buy that red car?" --attention car.png
  regard translate --beam 5 < english.txt > spanish.txt
  regard translate --beam 5 --n-best 3 "I have no idea."
  regard translate --json < english.txt | jq -r .results[0].text

stdin and stdout are UTF-8, one text a line in and one line out, in the same order; a blank line stays one. A text that
cannot be translated gives a blank line, a message on stderr and, at the end, exit status 1. Lines are sent as they
come, some calls ahead. A text may hold several sentences; they are translated one by one.

--alignments  adds an indented line (or more) below each translation: We→ø are→Estamos eating→comiendo
--n-best K    prints tab-separated rows instead: text, sentence, rank, score, translation (the first three from 1)
--json        prints one regard.v1.TranslateResponse with one result a text as protobuf JSON, each on a line of its own;
              with --attention the matrices of the pictured texts are in it
--attention   draws all texts given as arguments, or the first 6 lines of stdin; what does not fit into FILE goes to
              FILE-2 and so on
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    parser.epilog = _EPILOG
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to translate; without any, lines of stdin")
    parser.add_argument("--target", metavar="LANGUAGE", help="language to translate into, for example es")
    add_decoding_arguments(parser)
    output = parser.add_argument_group("output")
    shape = output.add_mutually_exclusive_group()
    shape.add_argument("--alignments", action="store_true", help="print which word comes from which")
    shape.add_argument("--json", action="store_true", help="print replies as protobuf JSON")
    output.add_argument("--n-best", type=count, metavar="K", help="print the K best answers; K is at most --beam")
    output.add_argument("--attention", type=Path, metavar="FILE", help="draw the attention as a .png, .svg or .pdf")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    if args.n_best is not None and args.alignments:
        raise CommandFailed("--n-best and --alignments cannot be printed together; --json holds both", USAGE)
    if args.attention is not None:
        _check_picture(args.attention)
    with connect(args) as client:
        return _Translation(args, client).run()


class _Translation:
    """One run: what was asked for, and what became of it so far."""

    def __init__(self, args: argparse.Namespace, client: Client) -> None:
        from regard.client.batching.patience import Patience

        self.args = args
        self.client = client
        self.patience = Patience(args.timeout)
        self.pictured_lines = 0 if args.attention is None else len(args.texts) or _PICTURED_LINES
        self.pictured: list[Translation] = []
        self.done = 0
        self.failed = False
        unseen = not args.texts and sys.stderr.isatty() and not sys.stdout.isatty()
        self.progress = Progress(sys.stderr, shown=unseen)
        self.output = Output(
            form="json" if args.json else "rows" if args.n_best is not None else "lines",
            alignments=args.alignments,
            terminal=Terminal.of(sys.stdout),
        )

    def run(self) -> int:
        from regard.client import RegardCallError
        from regard.client.batching.pipeline import in_order

        batches = _cut_after(self._batches(), self.pictured_lines)
        try:
            with closing(in_order(batches, self._translate, in_flight=_IN_FLIGHT)) as results:
                for batch, replies in results:
                    for line, reply in zip(batch, replies, strict=True):
                        self._take(line, reply)
                    sys.stdout.flush()
                    self.progress.update(self.done)
        except RegardCallError as error:
            raise CommandFailed(f"stopped after {self.done} texts: {error}" if self.done else str(error)) from error
        finally:
            self.progress.clear()
        if self.args.attention is not None:
            draw(self.client, self.pictured, self.args.attention, timeout=self.args.timeout, target=self.args.target)
        return FAILED if self.failed else OK

    def _batches(self) -> Iterator[list[Line]]:
        from regard.client.batching.lines import batches_of, read_lines

        if self.args.texts:
            return batches_of(self.args.texts)
        stdin = cast("TextIO | None", sys.stdin)
        if stdin is None:
            raise CommandFailed("there is neither a text nor stdin to read some from")
        if stdin.isatty():
            complain("one text a line; end with Ctrl-D")
        # Unbuffered and not sys.stdin.buffer, whose lock a thread that waits for a line would keep at exit.
        return read_lines(open(stdin.fileno(), "rb", buffering=0, closefd=False).read)

    def _translate(self, batch: list[Line]) -> tuple[list[Line], list[TranslateResponse]]:
        from regard.client.batching.batches import failure, translate_each

        texts = [line.text for line in batch if line.error is None]
        replies = iter(translate_each(self._send, texts, **self._options(batch[0].number)))
        return batch, [next(replies) if line.error is None else failure(line.error) for line in batch]

    def _send(self, request: TranslateRequest) -> TranslateResponse:
        return self.patience.ask(lambda seconds: self.client.send_translate(request, timeout=seconds))

    def _options(self, first_line: int) -> TranslateOptions:
        return {
            **decoding_options(self.args),
            "target_language": self.args.target,
            "attention": "word" if first_line <= self.pictured_lines else None,
        }

    def _take(self, line: Line, reply: TranslateResponse) -> None:
        from regard.client.replies import translation

        answer = translation(line.text, reply, "word")
        self.done += 1
        if answer.error is not None:
            self.failed = True
            self.progress.clear()
            complain(f"{'text' if self.args.texts else 'line'} {line.number}: {answer.error.message}")
        if line.number <= self.pictured_lines:
            self.pictured.append(answer)
        self.output.write(line.number, answer, reply)


def _cut_after(batches: Iterable[list[Line]], last: int) -> Iterator[list[Line]]:
    """Yield the batches, but the lines up to a number and those after it never in the same one."""
    for batch in batches:
        before = [line for line in batch if line.number <= last]
        yield from (part for part in (before, batch[len(before) :]) if part)


def _check_picture(path: Path) -> None:
    """Tell before any work is done what would keep the picture from being drawn."""
    from regard.client.drawing.pictures import SUFFIXES  # fails if matplotlib is not installed

    if path.suffix.lower() not in SUFFIXES:
        raise CommandFailed(f"--attention: a picture is a {', '.join(SUFFIXES)} file, not {path.name!r}", USAGE)
    if not path.parent.is_dir():
        raise CommandFailed(f"there is no directory {str(path.parent)!r} to write {path.name} into")

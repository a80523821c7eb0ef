"""Captions pictures by a server, and prints the answers line by line.

Does not know how files become calls: `regard.client.batching.image_files`, `regard.client.batching.pipeline` and
`regard.client.batching.batches` do that.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from regard.cli.connection import add_connection_arguments, connect
from regard.cli.decoding import add_decoding_arguments, count, decoding_options
from regard.cli.failure import FAILED, OK, USAGE, CommandFailed
from regard.cli.output import CaptionOutput, Terminal
from regard.cli.progress import Progress
from regard.cli.speech import complain

if TYPE_CHECKING:
    from regard.client import Caption, Client
    from regard.client.batching.image_files import Found, ImageFile
    from regard.client.requests import CaptionOptions
    from regard.v1.captioning_pb2 import CaptionRequest, CaptionResponse

EXTRA = ""

_IN_FLIGHT = 4

_EPILOG = """\
examples:
  regard caption photo.jpg
  regard caption photo.jpg --overlay slide.png
  regard caption --beam 5 holiday/ > captions.tsv
  regard caption -r holiday/ --overlay slides/
  regard caption --beam 5 --n-best 3 photo.jpg
  regard caption --json --maps photo.jpg | jq .results[0].hypotheses[0].attention
  curl -s https://example.org/photo.jpg | regard caption -

A file is a JPEG, PNG, WebP, GIF (first frame), BMP or TIFF whatever its name; - is stdin. A directory stands for
the pictures in it (.jpg .jpeg .png .webp .gif .bmp .tif .tiff), sorted by name, hidden ones left out; with -r also
those in the directories below it.

One line out for each picture, in order: the caption, and before it, if several pictures or a directory were asked for,
the name and a tab. A picture that cannot be captioned gives an empty caption, a message on stderr and, at the end, exit
status 1. Several pictures are sent in one call, and some calls ahead; they are read when it is their turn.

--n-best K   prints tab-separated rows instead: name, rank (from 1), score, caption
--json       prints one regard.v1.CaptionResponse with one result a picture as protobuf JSON, each on a line of its own;
             with --maps or --overlay it holds where every word looked
--overlay    draws a slide for each picture: the picture, then each word with where it looked. OUT is a .png, .svg or
             .pdf file for one picture; anything else is a directory, made if it is not there: holiday/red.jpg becomes
             OUT/red.png, or OUT/red-2.png where an earlier picture has that name. Pictures are never overwritten.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    parser.epilog = _EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="a picture, a directory of pictures, or - for stdin")
    parser.add_argument("-r", "--recursive", action="store_true", help="also take directories below directories")
    add_decoding_arguments(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print replies as protobuf JSON")
    output.add_argument("--maps", action="store_true", help="with --json: where every word looked, too")
    output.add_argument("--n-best", type=count, metavar="K", help="print the K best answers; K is at most --beam")
    output.add_argument("--overlay", metavar="OUT", help="draw where each word looked; OUT is a file or directory")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    from regard.client.batching.image_files import STDIN, find_images

    if args.maps and not args.json:
        raise CommandFailed("--maps goes with --json; --overlay draws them", USAGE)
    if args.files.count(STDIN) > 1:
        raise CommandFailed("stdin can be read once; write - once", USAGE)
    stdin = cast("TextIO | None", sys.stdin)
    if STDIN in args.files and (stdin is None or stdin.isatty()):
        raise CommandFailed("- reads a picture from stdin, and none is sent there", USAGE)
    found = find_images(args.files, recursive=args.recursive)
    single = len(args.files) == 1 and not Path(args.files[0]).is_dir()
    overlays = _overlays(args, found, single=single)
    for problem in found.problems:
        complain(problem)
    with connect(args) as client:
        return _Captioning(args, client, found, overlays, single=single).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """A picture under way.

    Attributes:
        file: where it is.
        data: its bytes; empty if there is an error.
        overlay: where its overlay goes, if it is to have one.
        error: why it could not be read, in words.
    """

    file: ImageFile
    data: bytes = b""
    overlay: Path | None
    error: str | None = None


class _Captioning:
    """One run: what was asked for, and what became of it so far."""

    def __init__(
        self, args: argparse.Namespace, client: Client, found: Found, overlays: tuple[Path, ...] | None, *, single: bool
    ) -> None:
        from regard.client.batching.patience import Patience

        self.args = args
        self.client = client
        self.patience = Patience(args.timeout)
        self.files = found.files
        self.overlays = overlays
        self.failed = bool(found.problems)
        self.done = 0
        total = len(self.files)
        self.progress = Progress(sys.stderr, shown=sys.stderr.isatty() and total > 1, unit="pictures", total=total)
        self.output = CaptionOutput(
            form="json" if args.json else "rows" if args.n_best is not None else "lines",
            named=not single,
            terminal=Terminal.of(sys.stdout),
        )

    def run(self) -> int:
        from regard.client import RegardCallError
        from regard.client.batching.pipeline import in_order

        try:
            with closing(in_order(self._batches(), self._caption, in_flight=_IN_FLIGHT)) as results:
                for batch, replies in results:
                    for picture, reply in zip(batch, replies, strict=True):
                        self._take(picture, reply)
                    sys.stdout.flush()
                    self.progress.update(self.done)
        except RegardCallError as error:
            raise CommandFailed(f"stopped after {self.done} pictures: {error}" if self.done else str(error)) from error
        finally:
            self.progress.clear()
        return FAILED if self.failed else OK

    def _batches(self) -> Iterator[list[_Picture]]:
        from regard.client.batching.batches import MAX_CALL_BYTES, MAX_CALL_IMAGES
        from regard.client.batching.grouping import in_groups

        return in_groups(
            map(self._read, range(len(self.files))),
            lambda picture: len(picture.data),
            most=MAX_CALL_IMAGES,
            most_size=MAX_CALL_BYTES,
        )

    def _read(self, place: int) -> _Picture:
        file, overlay = self.files[place], self.overlays[place] if self.overlays else None
        try:
            return _Picture(file=file, overlay=overlay, data=file.read())
        except OSError as error:
            return _Picture(file=file, overlay=overlay, error=error.strerror or str(error))

    def _caption(self, batch: list[_Picture]) -> tuple[list[_Picture], list[CaptionResponse]]:
        from regard.client.batching.batches import caption_each, caption_failure

        images = [picture.data for picture in batch if picture.error is None]
        replies = iter(caption_each(self._send, images, **self._options()))
        return batch, [next(replies) if picture.error is None else caption_failure(picture.error) for picture in batch]

    def _send(self, request: CaptionRequest) -> CaptionResponse:
        return self.patience.ask(lambda seconds: self.client.send_caption(request, timeout=seconds))

    def _options(self) -> CaptionOptions:
        maps = self.args.maps or self.args.overlay is not None
        return {**decoding_options(self.args), "attention": "word" if maps else None}

    def _take(self, picture: _Picture, reply: CaptionResponse) -> None:
        from regard.client.replies import caption

        answer = caption(reply, "word")
        self.done += 1
        self.progress.clear()
        if answer.error is not None:
            self._complain(picture, answer.error.message)
        self.output.write(picture.file.name, answer, reply)
        if picture.overlay is not None and answer.error is None:
            self._draw(picture, picture.overlay, answer)

    def _draw(self, picture: _Picture, path: Path, answer: Caption) -> None:
        from regard.client.drawing.overlays import write_overlay

        sys.stdout.flush()  # drawing takes longer than a person should wait for a line
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_overlay(path, picture.data, answer, name=picture.file.place.name)
        except OSError as error:
            self._complain(picture, f"no overlay: {error.filename}: {error.strerror}" if error.filename else str(error))
        except ValueError as error:
            self._complain(picture, f"no overlay: {error}")

    def _complain(self, picture: _Picture, message: str) -> None:
        self.failed = True
        complain(f"{picture.file.name}: {message}")


def _overlays(args: argparse.Namespace, found: Found, *, single: bool) -> tuple[Path, ...] | None:
    """Tell before any work is done what would keep the overlays from being drawn; return where they go."""
    if args.overlay is None:
        return None
    from regard.client.drawing.overlay_files import overlay_paths
    from regard.client.drawing.overlays import SUFFIXES  # fails if matplotlib or Pillow is not installed

    out = Path(args.overlay)
    if out.suffix.lower() in SUFFIXES and not out.parent.is_dir():
        raise CommandFailed(f"there is no directory {str(out.parent)!r} to write {out.name} into")
    try:
        return overlay_paths(out, found.files, single=single)
    except ValueError as error:
        raise CommandFailed(f"--overlay: {error}", USAGE) from None

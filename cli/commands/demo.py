"""Shows everything once: a private server, translations, captions, pictures of their attention, a short load test.

Does not do any of it itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.failure import OK, CommandFailed
from regard.cli.output import Terminal, draw
from regard.cli.speech import complain, say

if TYPE_CHECKING:
    from regard.client import Client, Translation

EXTRA = "serve,pictures,loadtest"

_SENTENCES = (
    "We are eating bread.",
    "The little girl gave her mother a beautiful flower.",
    "Where did you buy that red car?",
    "I don't know why he didn't come yesterday.",
    "It is raining. Don't forget to take an umbrella with you.",
)
_FOR_OTHERS = ("The cat eats the mouse.",)
PICTURES = Path(__file__).parents[1] / "pictures"
_LOAD = ("--rate", "4", "--duration", "8", "--warmup", "1")

# What each extra is for, by a module that only it brings.
_NEEDED_MODULES = ("onnxruntime", "tokenizers", "matplotlib", "locust")

_EPILOG = """\
examples:
  regard demo
  regard demo --out pictures --models my-models

Needs no GPU and no network, and takes about a minute. The server listens on a free port of this machine only and ends
with the demo. Photographs are captioned if a model is there that does it; cli/pictures/README.md says whose they are.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options to its parser."""
    parser.epilog = _EPILOG
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where files go (default: demo)")
    parser.add_argument("--models", type=Path, action="append", default=[], metavar="DIR", help="instead of our own")


def run(args: argparse.Namespace) -> int:
    """Run it; return the exit status."""
    missing = [module for module in _NEEDED_MODULES if importlib.util.find_spec(module) is None]
    if missing:
        raise CommandFailed(
            f"regard demo needs {', '.join(missing)}; in a checkout: pip install '.[{EXTRA}]', or make demo"
        )
    from regard.client import Client, RegardCallError
    from regard.loadtest.base.processes import StartError, served, translator
    from regard.loadtest.base.termination import ended_by_sigterm

    args.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    try:
        with ended_by_sigterm(), served(translator(args.models)) as server, Client(server.address) as client:
            client.wait_ready()
            say(f"A server at {server.address}, ready after {time.monotonic() - start:.1f} s, holds")
            for model in client.models():
                say(f"  {model.name} {model.version}: {model.description}")
            translations = client.translate(_SENTENCES, attention="word", beam_size=5)
            _tell(_SENTENCES, translations)
            _tell_others(client)
            written = _draw(client, translations, args.out)
            written += _caption(client, args.out)
            written += _load_test(server.address, args.out)
    except StartError as error:
        raise CommandFailed(f"the private server did not start: {error}") from error
    except RegardCallError as error:
        raise CommandFailed(str(error)) from error
    say(f"\nWritten in {time.monotonic() - start:.0f} s:")
    for path in written:
        say(f"  {path}")
    return OK


def _tell(texts: Sequence[str], translations: Sequence[Translation]) -> None:
    from regard.client.drawing.terminal import alignment_lines, visible

    terminal = Terminal.of(sys.stdout)
    for text, translation in zip(texts, translations, strict=True):
        say(f"\n  {text}")
        say(f"  {terminal.bold(visible(translation.text))}")
        for line in alignment_lines(translation, width=terminal.width, colour=terminal.colour, indent="    "):
            say(line)
    sys.stdout.flush()


def _tell_others(client: Client) -> None:
    """Translate into the other languages of a model that has several."""
    (model,) = (model for model in client.models() if model.is_default and model.task == "translation")
    for language in model.target_languages[1:]:
        _tell(_FOR_OTHERS, client.translate(_FOR_OTHERS, attention="word", beam_size=5, target_language=language))


def _draw(client: Client, translations: Sequence[Translation], out: Path) -> list[Path]:
    written: list[Path] = []
    for number, translation in enumerate(translations, start=1):
        written += draw(client, [translation], out / f"attention-{number}.png", timeout=60)
    return written


def _caption(client: Client, out: Path) -> list[Path]:
    from regard.client.batching.image_files import find_images
    from regard.client.drawing.overlays import write_overlay
    from regard.client.drawing.terminal import visible

    if all(model.task != "captioning" for model in client.models()):
        say("\n  No model here captions pictures, so none is captioned.")
        return []
    files = find_images([str(PICTURES)], recursive=False).files
    images = [file.read() for file in files]
    written: list[Path] = []
    terminal = Terminal.of(sys.stdout)
    for file, image, caption in zip(files, images, client.caption(images, attention="word", beam_size=5), strict=True):
        if caption.error is not None:
            raise CommandFailed(f"{file.name}: {caption.error.message}")
        say(f"\n  {file.place}")
        say(f"  {terminal.bold(visible(caption.text))}")
        sys.stdout.flush()  # drawing takes longer than a person should wait for a line
        path = out / f"caption-{file.place.stem}.png"
        write_overlay(path, image, caption, name=file.place.name)
        written.append(path)
    return written


def _load_test(address: str, out: Path) -> list[Path]:
    from regard.loadtest.commands import main

    directory = out / "load-test"
    say("\nA short load test: requests are due at random times, and latency counts from then.")
    sys.stdout.flush()
    status = main(["run", "--address", address, "--output", str(directory), *_LOAD], prog="regard bench")
    report = directory / "report.html"
    if not report.exists():
        raise CommandFailed(f"the load test wrote no report (exit status {status})")
    if status != OK:
        complain("the load test does not trust its own figures here; the report says why")
    return sorted(path for path in directory.iterdir() if path.is_file())

"""`regard bench engine`: our decode engine beside CTranslate2, on the same weights, in turn.

Each engine is a process of its own that takes sentences as ids and says how long it took.
"""

import json
import os
import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

from regard.benches.engine.comparison import agreement, compare
from regard.benches.engine.figures import as_json, join
from regard.benches.engine.plan import Plan, Sentences, Setting, all_settings, of_one_length
from regard.benches.engine.text import as_page_part, as_text
from regard.datasets.lines import read_lines
from regard.loadtest.accuracy.test_sets import read_tatoeba
from regard.loadtest.base.environment import command_line, environment
from regard.loadtest.base.line_process import LineProcess, ProcessFault
from regard.loadtest.base.page_part import replace_part
from regard.loadtest.base.progress import Progress

REQUIREMENTS = "benches/engine/ctranslate2.txt"
_PART = "regard bench engine"
_TOKENIZED = 4000
_EPILOG = f"""\
CTranslate2 has an environment of its own, made once by `make ctranslate2`, or elsewhere by
  python3 -m venv DIR && DIR/bin/pip install -r {REQUIREMENTS}
and then named by --ctranslate2-python DIR/bin/python.

Both sides get the same ids and must write the same number of tokens; scores and attention are returned on both.
Precision float32 needs a bundle with the profile cpu-float32: regard export RUN BUNDLE --float32.
One core for one thread, so that nothing else is measured: taskset -c 0 regard bench engine --workers 1 ...

examples:
  regard bench engine --checkpoint runs/en_xx/best --bundle bundles/en-xx/1 --json engine.json --plot engine.png
  regard bench engine --checkpoint checkpoints/en-xx-1 --rows 32 --beams 1 --precisions int8 --profile
  regard bench engine --from-json docs/engine.json --page docs/results.md --plot docs/images/engine.png
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    models = parser.add_argument_group("the weights")
    models.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="model.safetensors and config.json, for CTranslate2"
    )
    models.add_argument(
        "--bundle", type=Path, default=Path("models/en-xx/1"), metavar="DIR", help="made of it (models/en-xx/1)"
    )
    models.add_argument(
        "--vocabulary-map",
        action="store_true",
        help="let CTranslate2, too, search among the tokens of the target language alone, by a vocabulary map",
    )
    models.add_argument(
        "--ctranslate2-python",
        type=Path,
        default=Path(".venv-ctranslate2/bin/python"),
        metavar="PATH",
        help="a Python that has CTranslate2 (.venv-ctranslate2/bin/python)",
    )
    data = parser.add_argument_group("the sentences")
    data.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets, for Tatoeba's test sentences")
    data.add_argument("--source", type=Path, metavar="FILE", help="one sentence a line instead")
    data.add_argument("--language", default="", metavar="TAG", help="to translate into (the first of the bundle)")
    data.add_argument("--source-tokens", type=int, metavar="N", help="of every sentence (their median)")
    data.add_argument("--target-tokens", type=int, metavar="N", help="of every translation (as many as the source has)")
    what = parser.add_argument_group("what to measure")
    what.add_argument("--precisions", type=_words, default=["int8", "float32"], help="int8,float32")
    what.add_argument("--workers", type=_numbers, default=[1, 2], help="decode threads (1,2)")
    what.add_argument("--beams", type=_numbers, default=[1, 4], help="hypotheses of a search (1,4)")
    what.add_argument("--rows", type=_numbers, default=[1, 8, 32, 64, 128], help="of a worker (1,8,32,64,128)")
    what.add_argument("--pairs", type=int, default=12, metavar="N", help="of blocks for each setting (12)")
    what.add_argument("--block-seconds", type=float, default=0.4, metavar="S", help="that a block takes at least (0.4)")
    what.add_argument(
        "--clock",
        choices=("wall", "processor"),
        default="wall",
        help="time that passed, or processor time, which suits a busy machine and one worker (wall)",
    )
    what.add_argument("--profile", action="store_true", help="also show where our time goes, by operator")
    show = parser.add_argument_group("what to write")
    show.add_argument("--json", type=Path, metavar="FILE", help='all figures: {"rows": {"32": {"int8": ratio}}, ...}')
    show.add_argument("--plot", type=Path, metavar="FILE", help="a picture of the ratios, .png or .svg")
    show.add_argument("--page", type=Path, metavar="FILE.md", help="put the tables into a part of this page")
    show.add_argument(
        "--from-json",
        type=Path,
        metavar="FILE",
        nargs="+",
        help="measure nothing; show what was written before, by several runs of different settings together",
    )


def command(arguments: Namespace) -> int:
    """Measure and show; 1 if something is missing or fails, 2 for options that do not go together."""
    if problem := _wrong(arguments):
        sys.stderr.write(f"regard bench engine: {problem}\n")
        return 2
    if missing := _missing(arguments):
        sys.stderr.write("".join(f"regard bench engine: {each}\n" for each in missing))
        return 1
    try:
        if arguments.from_json:
            figures = join([json.loads(path.read_text(encoding="utf-8")) for path in arguments.from_json])
        else:
            figures = _measure(arguments)
        sys.stdout.write(as_text(figures))
        _write(arguments, figures)
    except (OSError, ValueError, KeyError, ProcessFault) as problem:
        sys.stderr.write(f"regard bench engine: {problem}\n")
        return 1
    return 0


def _measure(arguments: Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        ours = stack.enter_context(
            LineProcess(
                "the engine", [sys.executable, "-m", "regard.benches.engine.decode_lines", str(arguments.bundle)]
            )
        )
        described = ours.ask("describe")
        precisions = _precisions(arguments, described)
        check_weights(arguments.checkpoint, arguments.bundle, described["checkpoint_sha256"])
        theirs = stack.enter_context(_ctranslate2(arguments, _vocabulary_map(arguments, described, stack)))
        sentences = _sentences(arguments, ours)
        plan = Plan(
            settings=all_settings(
                precisions=precisions, workers=_workers(arguments), beams=arguments.beams, rows=arguments.rows
            ),
            pairs=arguments.pairs,
            block_seconds=arguments.block_seconds,
            length=arguments.target_tokens or sentences.tokens,
            clock=arguments.clock,
        )
        own = described.pop("vocabularies")
        about = {
            "tokens": described["output"],
            "tokens_searched": len(own.get(str(sentences.sources[0][-1]), ())) or described["output"],
            "ours": described,
            "theirs": theirs.ask("describe"),
            "vocabulary_map": arguments.vocabulary_map,
            "environment": environment(command_line()),
        }
        agreements = [agreement(ours, theirs, precision, sentences, plan.length) for precision in precisions]
        progress = Progress("compare", len(plan.settings) * plan.pairs)

        def report(done: int, setting: Setting) -> None:
            what = f"{setting.precision}, {setting.workers} x {setting.rows} rows, beam {setting.beams}"
            progress.show(done, what)

        measured = compare(ours, theirs, plan, sentences, report)
        progress.close()
        figures = {**as_json(measured, agreements, plan, sentences), **about}
        if arguments.profile:
            sizes = {entry.setting.rows: entry.sentences for entry in measured}
            figures["profiles"] = [
                _profile(ours, setting, sentences, plan.length, sizes[setting.rows])
                for setting in plan.settings
                if setting.workers == 1
            ]
    return figures


def _profile(ours: LineProcess, setting: Setting, sentences: Sentences, length: int, count: int) -> dict[str, Any]:
    sources = [sentences.sources[place % len(sentences.sources)] for place in range(count)]
    found = ours.ask("profile", **setting._asdict(), sources=sources, length=length)
    return {**setting._asdict(), **found}


def _write(arguments: Namespace, figures: dict[str, Any]) -> None:
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if arguments.plot:
        from regard.benches.engine.plot import draw

        draw(figures, arguments.plot)
    if arguments.page:
        picture = os.path.relpath(str(arguments.plot), str(arguments.page.parent))
        replace_part(arguments.page, _PART, as_page_part(figures, picture=picture))


def _wrong(arguments: Namespace) -> str:
    if arguments.page and not arguments.plot:
        return "--page shows the picture, so it needs --plot"
    if arguments.from_json:
        return ""
    if not arguments.checkpoint:
        return "name the weights by --checkpoint, or figures to show again by --from-json"
    for name in ("pairs", "source_tokens", "target_tokens"):
        if (value := getattr(arguments, name)) is not None and value < 1:
            return f"--{name.replace('_', '-')} must be at least 1, not {value}"
    return ""


def _vocabulary_map(arguments: Namespace, described: dict[str, Any], stack: ExitStack) -> list[str]:
    """Return the options by which CTranslate2 searches among the same tokens as our side does, if it is to."""
    if not arguments.vocabulary_map:
        return []
    if not described["vocabularies"]:
        raise ValueError(f"{arguments.bundle} has no target vocabularies to make a map of")
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="regard-"))
    path = Path(folder, "vocabulary.map")
    lines = [f"{end}\t{' '.join(map(str, tokens))}\n" for end, tokens in described["vocabularies"].items()]
    path.write_text("".join(lines), encoding="utf-8")
    return ["--vocabulary-map", str(path)]


def _ctranslate2(arguments: Namespace, options: list[str]) -> LineProcess:
    python: Path = arguments.ctranslate2_python
    script = Path(__file__).with_name("ctranslate2_lines.py")
    # Nothing of our own environment: the script needs none of it.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return LineProcess("CTranslate2", [str(python), str(script), str(arguments.checkpoint), *options], inherited)


def _precisions(arguments: Namespace, described: dict[str, Any]) -> list[str]:
    kept = [precision for precision in arguments.precisions if precision in described["precisions"]]
    for precision in arguments.precisions:
        if precision not in kept:
            sys.stderr.write(f"{arguments.bundle} has no {precision} for the engine: left out, see --help\n")
    if not kept:
        raise ValueError(f"{arguments.bundle} has {', '.join(described['precisions']) or 'nothing'} to compare")
    return kept


def check_weights(checkpoint: Path, bundle: Path, digest: str) -> None:
    """Raise ValueError unless a bundle, made of weights with this SHA-256, and a checkpoint have the same weights.

    A checkpoint that was recovered from a bundle holds its weights as storage rounded them.
    """
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    recovered = config.get("provenance", {}).get("recovered_from", {}).get("checkpoint_sha256")
    if digest not in (sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest(), recovered):
        raise ValueError(f"{bundle} was not made of the weights in {checkpoint}")


def _workers(arguments: Namespace) -> list[int]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    kept = [count for count in arguments.workers if count <= usable]
    if len(kept) < len(arguments.workers):
        sys.stderr.write(f"only {usable} processors can be used: no more workers than that\n")
    if not kept:
        raise ValueError(f"{min(arguments.workers)} workers do not fit on {usable} processors")
    return kept


def _sentences(arguments: Namespace, ours: LineProcess) -> Sentences:
    if arguments.source:
        texts, origin = read_lines(arguments.source), arguments.source.name
    else:
        pairs = read_tatoeba(arguments.data or Path(os.environ.get("REGARD_DATA", "data")), "test", option="--data")
        texts, origin = pairs.sources, pairs.name
    texts = tuple(dict.fromkeys(text for text in texts if text.strip()))[:_TOKENIZED]
    found = ours.ask("tokenize", texts=texts, language=arguments.language)["sources"]
    return of_one_length(found, tokens=arguments.source_tokens, origin=origin)


def _missing(arguments: Namespace) -> list[str]:
    """What a measurement needs and does not find, all of it, before anything is started."""
    if arguments.from_json:
        return []
    missing: list[str] = []
    python: Path = arguments.ctranslate2_python
    if not python.is_file():
        missing.append(
            f"{python} is missing. CTranslate2 has an environment of its own: make ctranslate2, or "
            f"python3 -m venv DIR && DIR/bin/pip install -r {REQUIREMENTS}, and name DIR/bin/python by "
            "--ctranslate2-python"
        )
    missing += [
        f"--checkpoint {arguments.checkpoint} has no {name}: it is a folder that regard train wrote, such as RUN/best"
        for name in ("model.safetensors", "config.json")
        if not (arguments.checkpoint / name).is_file()
    ]
    if not arguments.bundle.is_dir():
        missing.append(f"--bundle {arguments.bundle} is no folder: regard export {arguments.checkpoint} makes a bundle")
    return missing


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def _numbers(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError("numbers are at least 1")
    return list(dict.fromkeys(numbers))

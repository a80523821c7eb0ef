"""Has a finished model translate the training sentences, for another to learn from: Kim and Rush 2016, section 3.2.

It does not know who learns from the translations, nor how.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from training import checkpoint
from training.checkpoint import Checkpoint
from training.evaluate import translate
from training.search import SearchConfig
from training.translation_data import Pair, References, group_references

_SEARCH = SearchConfig(beam_size=5)

# Sources that are translated between two writes to the file: what an interruption loses.
_PART = 500


class TeacherError(ValueError):
    """A run cannot learn from this teacher; the message says why."""


class Taught(NamedTuple):
    """What a teacher makes of the training sentences."""

    pairs: list[Pair]  # each distinct source with the teacher's translation
    origin: Mapping[str, Any]  # the teacher's recipe, its weights, its search


def teach(pairs: Sequence[Pair], *, file: Path, teacher: Path | None) -> Taught:
    """Return the sources of training pairs with a teacher's translations, found by a beam of 5.

    teacher is a run or a checkpoint. Translations are kept in a file as they come: the same call goes on where an
    interrupted one was, and once all are there, no teacher need be given. Raises FileNotFoundError where the teacher
    has no checkpoint, CheckpointError for one that cannot be read, TeacherError where one is needed and not given, and
    where the file is damaged or has translations by another teacher or of other sentences.
    """
    texts = group_references(pairs)
    sources = hashlib.sha256("\n".join(text.source + text.language for text in texts).encode()).hexdigest()
    origin, known = _read(file)
    if origin is not None and origin["sources"] != sources:
        raise TeacherError(f"{file} has translations of other sentences: give another --out, or remove it.")
    if teacher is None and len(known) < len(texts):
        raise TeacherError(f"{file} lacks translations: give the folder of the run that makes them by --teacher.")
    if teacher is not None:
        folder = checkpoint.find(teacher)
        found = checkpoint.load(folder)
        given = {
            "recipe": found.recipe,
            "sha256": checkpoint.weights_digest(folder),
            "search": asdict(_SEARCH),
            "sources": sources,
        }
        if origin is not None and origin != given:
            raise TeacherError(f"{file} has translations by another teacher: give another --out, or remove it.")
        origin = given
        known.update(_translate(found, texts, known, file=file, origin=origin))
    assert origin is not None
    return Taught([Pair(text.source, known[number], text.language) for number, text in enumerate(texts)], origin)


def _read(file: Path) -> tuple[Mapping[str, Any] | None, dict[int, str]]:
    """Return what the first line of a file says of its teacher, and the translations by number."""
    if not file.is_file():
        return None, {}
    whole, end, _ = file.read_text(encoding="utf-8").rpartition("\n")
    if not end:
        return None, {}  # interrupted in its first line
    try:
        head, *rest = [json.loads(line) for line in whole.split("\n")]
        return {**head, "sources": str(head["sources"])}, {int(number): str(text) for number, text in rest}
    except (KeyError, TypeError, ValueError) as error:
        raise TeacherError(f"{file} is damaged: remove it, and the sentences are translated anew.") from error


def _translate(
    found: Checkpoint, texts: Sequence[References], known: Mapping[int, str], *, file: Path, origin: Mapping[str, Any]
) -> Mapping[int, str]:
    """Translate the texts that are not known yet and write each part of them down."""
    # Of like length together, so that little of a batch is padding.
    order = sorted(set(range(len(texts))) - set(known), key=lambda number: len(texts[number].source))
    made: dict[int, str] = {}
    if not order:
        return made
    # Without what an interruption cut off.
    partial = file.with_name(file.name + ".partial")
    _write_down(partial, [json.dumps(origin), *(_line(number, known[number]) for number in known)], mode="w")
    partial.replace(file)
    with tqdm(total=len(texts), initial=len(known), desc="the teacher translates", unit="sentence") as progress:
        for start in range(0, len(order), _PART):
            numbers = order[start : start + _PART]
            part = translate(found.model, found.vocabulary, [texts[number] for number in numbers], _SEARCH)
            made.update(zip(numbers, part, strict=True))
            _write_down(file, [_line(number, made[number]) for number in numbers], mode="a")
            progress.update(len(numbers))
    return made


def _line(number: int, text: str) -> str:
    return json.dumps([number, text], ensure_ascii=False)


def _write_down(file: Path, lines: Sequence[str], *, mode: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open(mode, encoding="utf-8", newline="\n") as output:
        output.writelines(line + "\n" for line in lines)

"""Translates the training sentences with a finished model for another to learn from: Kim and Rush 2016, section 3.2."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from regard.atomic import replacing
from regard.training.data.translation_data import Pair, References, group_references
from regard.training.decoding.evaluate import find_best
from regard.training.decoding.search import SearchConfig
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.learning.recipe import Recipe
from regard.training.learning.warm_start import describe_run
from regard.training.models.captioner import Captioner

_SEARCH = SearchConfig(beam_size=5)

# Sources that are translated between two writes to the file: what an interruption loses.
_PART = 500

# What the first line says at least.
_HEAD = {"recipe", "sha256", "data", "search", "sources"}


class TeacherError(ValueError):
    """A run cannot learn from this teacher; the message says why."""


class DistilledPairs(NamedTuple):
    """What a teacher makes of the training sentences."""

    pairs: list[Pair]  # each distinct source with the teacher's translation, where that came to an end
    origin: Mapping[str, Any]  # what `describe_run` says of the teacher, its search and a digest of the sources


def teach(recipe: Recipe, pairs: Sequence[Pair], *, out: Path, teacher: Path | None) -> DistilledPairs:
    """Return the sources of training pairs with a teacher's translations, found by a beam of 5.

    teacher is a run or a checkpoint. Translations are kept in out/taught.jsonl as they come: the same call goes on
    where an interrupted one was, and once all are there, no teacher need be given. Raises FileNotFoundError where the
    teacher has no checkpoint, CheckpointError for one that cannot be read, TeacherError where one is needed and not
    given, for one that translates between other languages, where `out` holds a run that learnt from another one, and
    where the file is damaged or has translations by another teacher or of other sentences.
    """
    texts = group_references(pairs)
    file = out / "taught.jsonl"
    sources = hashlib.sha256(json.dumps([[text.source, text.language] for text in texts]).encode()).hexdigest()
    origin, known = _read(file, sources, len(texts))
    found = None
    if teacher is not None:
        folder = checkpoint.find(teacher)
        found = checkpoint.load(folder)
        _check_fits(recipe, found, folder)
        # As it is read back from JSON.
        given = json.loads(json.dumps({**describe_run(found, folder), "search": asdict(_SEARCH), "sources": sources}))
        if origin not in (None, given):
            raise TeacherError(f"{file} has translations by another teacher: give another --out.")
        origin = given
    elif origin is None or len(known) < len(texts):
        raise TeacherError(f"{file} lacks translations: give the folder of the run that makes them by --teacher.")
    _check_same(out, origin)
    if found is not None:
        known.update(_translate(found, texts, known, file=file, origin=origin))
    taught = [
        Pair(text.source, translation, text.language)
        for number, text in enumerate(texts)
        if (translation := known[number]) is not None
    ]
    return DistilledPairs(taught, origin)


def _check_fits(recipe: Recipe, found: Checkpoint, folder: Path) -> None:
    if isinstance(found.model, Captioner):
        raise TeacherError(f"{folder} describes pictures, and {recipe.name} learns to translate.")
    languages = found.provenance.get("languages", {})
    # Runs into one language once named it alone.
    targets = languages.get("targets", [languages.get("target")])
    if (languages.get("source"), *targets) != (recipe.source_language, *recipe.target_languages):
        raise TeacherError(
            f"{folder} translates from {languages.get('source')} into {', '.join(map(str, targets))}, but "
            f"{recipe.name} learns to from {recipe.source_language} into {', '.join(recipe.target_languages)}."
        )


def _check_same(out: Path, origin: Mapping[str, Any]) -> None:
    """Check that what `out` holds of a run learnt from this teacher."""
    if (out / "latest").exists() and checkpoint.load(out / "latest").provenance.get("teacher") != origin:
        raise TeacherError(f"{out} holds a run that learnt from another teacher: give another --out.")


def _read(file: Path, sources: str, count: int) -> tuple[Mapping[str, Any] | None, dict[int, str | None]]:
    """Return what the first line of a file says of its teacher, and the translations by number."""
    if not file.is_file():
        return None, {}
    # What follows the last line's end was cut off, maybe within a character.
    whole, end, _ = file.read_bytes().rpartition(b"\n")
    if not end:
        return None, {}
    try:
        head, *rest = [json.loads(line) for line in whole.split(b"\n")]
        origin = dict(head)
        if not origin.keys() >= _HEAD:
            raise ValueError
        if origin["sources"] != sources:
            raise TeacherError(f"{file} has translations of other sentences: give another --out.")
        return origin, dict(_entry(line, count) for line in rest)
    except TeacherError:
        raise
    except (TypeError, ValueError) as error:
        raise TeacherError(f"{file} is damaged: remove it, and the sentences are translated anew.") from error


def _entry(line: Any, count: int) -> tuple[int, str | None]:
    number, text = line
    if type(number) is not int or not 0 <= number < count or not (text is None or isinstance(text, str)):
        raise ValueError
    if text is not None:
        text.encode()  # a lone half of a character is a ValueError, too
    return number, text


def _translate(
    found: Checkpoint,
    texts: Sequence[References],
    known: Mapping[int, str | None],
    *,
    file: Path,
    origin: Mapping[str, Any],
) -> Mapping[int, str | None]:
    """Translate the texts that are not known yet and write each part of them down."""
    # Of like length together, so that little of a batch is padding.
    order = sorted(set(range(len(texts))) - set(known), key=lambda number: len(texts[number].source))
    made: dict[int, str | None] = {}
    if not order:
        return made
    # Without what an interruption cut off.
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as partial:
        _write_down(partial, [dict(origin), *known.items()], mode="w")
    with tqdm(total=len(texts), initial=len(known), desc="the teacher translates", unit="sentence") as progress:
        for start in range(0, len(order), _PART):
            numbers = order[start : start + _PART]
            part = dict(zip(numbers, _translations(found, [texts[number] for number in numbers]), strict=True))
            _write_down(file, part.items(), mode="a")
            made.update(part)
            progress.update(len(numbers))
    return made


def _translations(found: Checkpoint, texts: Sequence[References]) -> Iterable[str | None]:
    """Return the best translation of each text, None for one that is empty or did not come to an end."""
    return [
        (found.vocabulary.decode(best.tokens) or None) if best.finish == "end" else None
        for best in find_best(found.model, found.vocabulary, texts, _SEARCH)
    ]


def _write_down(file: Path, lines: Iterable[Any], *, mode: str) -> None:
    with file.open(mode, encoding="utf-8", newline="\n") as output:
        output.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

"""Holds all figures of the ladder as one JSON file, from which page and pictures can be made again."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.atomic import write_text
from regard.training.decoding.evaluate import Figure
from regard.training.studies.ladder.lengths import Estimate

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthFigure:
    """BLEU of the sources of one kind of length."""

    label: str
    sources: int
    joined: int  # how many of them were made of more than one sentence
    words: float  # of a source, on average
    bleu: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a rung learns."""

    logged: float | None  # target tokens a second of its training, by its log; None where there is none
    side_by_side: float  # a second of processor time, on the same batches in turn with the other rungs
    minutes: float | None  # of its training, by its log


@dataclass(frozen=True, slots=True, kw_only=True)
class RungReport:
    """All that was measured of one rung."""

    recipe: str
    parameters: int
    epochs: int  # trained, by its log
    planned_epochs: int
    best_epoch: int
    seed: int
    tokens_per_epoch: int  # of targets
    digest: str  # of the weights
    pace: Pace
    figures: tuple[Figure, ...]
    bleu: Mapping[str, Estimate]  # by test set
    gain: Estimate | None  # over the rung before, on the first test set
    by_length: tuple[LengthFigure, ...]
    by_parts: tuple[LengthFigure, ...]
    alignment_error: float | None  # percent; None without attention
    loss_curve: tuple[tuple[float, float], ...]  # target tokens seen, validation loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a rung looked at, word by word."""

    kind: str
    note: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]  # [target, source]
    end_weights: tuple[float, ...]  # [target], on the end of the source


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderReport:
    """All that the page says in figures."""

    rungs: tuple[RungReport, ...]  # in order of the ladder
    missing: tuple[str, ...]  # recipes without a checkpoint
    pictures: tuple[Picture, ...]
    test_sets: Mapping[str, int]  # sentences by name
    alignments: str
    search: str
    setting: Mapping[str, str]  # what it was measured with


def write_report(path: Path, report: LadderReport) -> None:
    """Write a report; the file appears whole or not at all."""
    text = json.dumps({"format": FORMAT, **asdict(report)}, indent=1, ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text + "\n")


def read_report(path: Path) -> LadderReport:
    """Read a report. Raises FileNotFoundError, or ValueError where the file is something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.pop("format") != FORMAT:
            raise ValueError("another format")
        return LadderReport(**_changed(found, rungs=_rung, missing=str, pictures=_picture))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} does not hold the figures of a ladder in format {FORMAT}: {error}.") from error


def _rung(found: dict[str, Any]) -> RungReport:
    changed = _changed(found, figures=lambda each: Figure(**each), by_length=_length, by_parts=_length)
    changed = _changed(changed, loss_curve=tuple[float, float])
    changed["pace"] = Pace(**found["pace"])
    changed["bleu"] = {name: Estimate(*numbers) for name, numbers in found["bleu"].items()}
    changed["gain"] = None if found["gain"] is None else Estimate(*found["gain"])
    return RungReport(**changed)


def _length(found: dict[str, Any]) -> LengthFigure:
    changed: dict[str, Any] = {**found, "bleu": Estimate(*found["bleu"])}
    return LengthFigure(**changed)


def _picture(found: dict[str, Any]) -> Picture:
    return Picture(**_changed(found, source=str, target=str, weights=tuple[float, ...], end_weights=float))


def _changed(found: dict[str, Any], **readers: Callable[[Any], object]) -> dict[str, Any]:
    """Return found with the named lists as tuples of what their reader makes of each entry."""
    return {**found, **{name: tuple(map(reader, found[name])) for name, reader in readers.items()}}

"""Starts a run from the weights of a finished one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.training.families import TrainedModel
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.learning.recipe import CaptionRecipe, Recipe

# What may differ: it changes how a model learns and not what its weights mean.
_FREE = {"dropout"}


class StartError(ValueError):
    """A run cannot start from these weights; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a run begins with, or goes on with."""

    checkpoint: Checkpoint
    origin: Mapping[str, Any] | None  # what is known of the run that the weights are from; None for a run's own


def find_start(recipe: Recipe | CaptionRecipe, *, out: Path, run: Path | None) -> Start | None:
    """Return what a recipe's run in `out` begins with: what an earlier part of it left, or the weights of another run.

    None where all is to be learnt. Raises FileNotFoundError where the other run has no checkpoint, CheckpointError for
    one that cannot be read, ValueError where `out` holds a run of another recipe, StartError where it started
    otherwise and where the recipe has to start from another run.
    """
    given = None if run is None else _read(run)
    if (out / "latest").exists():
        latest = checkpoint.load(out / "latest")
        if latest.recipe != recipe.name:
            raise ValueError(f"{out} holds a run of {latest.recipe}, so {recipe.name} cannot go on there.")
        begun = latest.provenance.get("start")
        if given is not None:
            _check_same(out, begun, given.origin)
        return Start(checkpoint=latest, origin=begun)
    if given is None and recipe.starts_from is not None:
        raise StartError(
            f"{recipe.name} goes on from a finished run of {recipe.starts_from}: give its folder by --start-from."
        )
    return given


def _read(run: Path) -> Start:
    folder = checkpoint.find(run)
    found = checkpoint.load(folder)
    return Start(checkpoint=found, origin=describe_run(found, folder))


def describe_run(found: Checkpoint, folder: Path) -> dict[str, Any]:
    """Return what a run that goes on from a checkpoint in `folder` says of it."""
    before = {
        name: found.provenance[name] for name in ("average", "teacher", "start", "terms") if name in found.provenance
    }
    return {
        "recipe": found.recipe,
        "epoch": found.metrics.get("epoch"),
        "sha256": checkpoint.weights_digest(folder),
        "data": _origin(found),
        **before,
    }


def _origin(found: Checkpoint) -> str:
    return str(found.provenance.get("data", {}).get("origin", ""))


def _check_same(out: Path, begun: Mapping[str, Any] | None, given: Mapping[str, Any] | None) -> None:
    if begun is None:
        raise StartError(
            f"{out} holds a run that started from nothing: leave out --start-from to go on, or give another --out."
        )
    if given is not None and begun["sha256"] != given["sha256"]:
        raise StartError(
            f"{out} holds a run that started from other weights, those of {begun['recipe']} after epoch "
            f"{begun['epoch']}: leave out --start-from to go on, or give another --out."
        )


def started_from(found: Checkpoint) -> list[str]:
    """Return the recipes of the runs that a checkpoint's run goes back to, the first one first."""
    recipes: list[str] = []
    start = found.provenance.get("start")
    while start is not None:
        recipes.insert(0, start["recipe"])
        start = start.get("start")
    return recipes


def descent(found: Checkpoint) -> list[Mapping[str, Any]]:
    """Return what is known of all runs that a checkpoint came of, its own first: parts of means, starts, teachers.

    Each has a recipe and, if it was taught, a teacher, which is one of them.
    """
    known: list[Mapping[str, Any]] = []
    waiting: list[Mapping[str, Any]] = [{**found.provenance, "recipe": found.recipe, "data": _origin(found)}]
    while waiting:
        run = waiting.pop(0)
        known.append(run)
        waiting += [*run.get("average", ()), *(run[name] for name in ("start", "teacher") if name in run)]
    return known


def take_weights(model: TrainedModel, start: Checkpoint) -> None:
    """Give a model the weights of another of the same kind and sizes.

    Raises StartError that names what differs.
    """
    if type(model) is not type(start.model):
        raise StartError(
            f"The recipe trains a {type(model).__name__}, but the run to start from holds a "
            f"{type(start.model).__name__}."
        )
    wanted, found = asdict(model.config), asdict(start.model.config)
    different = [name for name in wanted if name not in _FREE and wanted[name] != found[name]]
    if different:
        named = ", ".join(f"{name} {wanted[name]} and not {found[name]}" for name in different)
        raise StartError(f"The recipe's model is not that of the run to start from: it has {named}.")
    given = dict(start.model.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(given[name])

"""Says where a bundle comes from: recipes, data, licence, limits, teachers, versions, and the digest of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.export.errors import BundleError
from regard.training.learning.checkpoint import Checkpoint, weights_digest
from regard.training.learning.recipe import describe_terms
from regard.training.learning.warm_start import descent, started_from
from regard.training.recipes.catalogue import RECIPES
from regard.v1 import bundle_pb2

_PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "tokenizers", "torch")


def describe_origin(folder: Path, checkpoint: Checkpoint, *, licence: str = "") -> bundle_pb2.Provenance:
    """Return the provenance of a checkpoint in a folder.

    The terms of all runs that it came of bind it: those that it started from, those that its weights are the mean of,
    and its teachers. licence stands in their place if it is given.

    Raises BundleError where the licence of one of these runs is not known and none is given.
    """
    runs = descent(checkpoint)
    return bundle_pb2.Provenance(
        recipe=", ".join([*started_from(checkpoint), checkpoint.recipe]),
        taught_by={
            run["recipe"]: ", ".join(_parts(run["teacher"])) or run["teacher"]["recipe"]
            for run in runs
            if "teacher" in run
        },
        mean_of=_parts(checkpoint.provenance),
        # Starts and parts of a mean from before this was kept say nothing of it.
        training_data="; and ".join(dict.fromkeys(str(run["data"]) for run in runs if run.get("data"))),
        licence=licence or _licence(runs),
        known_limits=" ".join(dict.fromkeys(limits for run in runs if (limits := _terms(run).get("known_limits")))),
        versions={name: version(name) for name in _PACKAGES},
        checkpoint_sha256=weights_digest(folder),
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _parts(run: Mapping[str, Any]) -> list[str]:
    """Return the epochs that a run's weights are the mean of, if they are."""
    return [f"{part['recipe']}/epoch-{part['epoch']:02}" for part in run.get("average", ())]


def _terms(run: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a run's licence and limits: what it says itself or, if it is too old to say, what its recipe says."""
    if "terms" in run:
        return run["terms"]
    return describe_terms(RECIPES[run["recipe"]]()) if run["recipe"] in RECIPES else {}


def _licence(runs: list[Mapping[str, Any]]) -> str:
    licences: dict[str, None] = {}
    for run in runs:
        licence = _terms(run).get("licence")
        if not licence:
            raise BundleError(
                f"A run of {run['recipe']} had a part in these weights, but neither it nor a recipe of this version "
                "says under which licence: give that of the weights by --licence."
            )
        licences[licence] = None
    if len(licences) > 1:
        # What is free of conditions of its own adds nothing to the others.
        licences.pop("Apache-2.0", None)
    return "; ".join(licences)

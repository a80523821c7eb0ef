"""Saves and loads checkpoints: weights as safetensors, settings as JSON, the tokenizer; never a pickle."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from safetensors import SafetensorError

from regard.atomic import replace_link, replacing_folder
from regard.training.data.vocabulary import Vocabulary
from regard.training.families import FAMILIES, TrainedModel, family_of

FORMAT = 1
# Keys that older checkpoints do not have.
_LATER = {"alignment_heads", "alignment_lag"}
_KEYS = {"format", "recipe", "model", "vocabulary", "metrics", "provenance", *_LATER}


class CheckpointError(ValueError):
    """The folder is not a checkpoint that this version can read; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A trained model, ready to use, with what is known of it."""

    recipe: str
    model: TrainedModel
    vocabulary: Vocabulary
    metrics: Mapping[str, Any]
    provenance: Mapping[str, Any]
    alignment_heads: tuple[tuple[int, int], ...] = ()  # (layer, head) of attention that was trained to align, if any
    alignment_lag: int = 0  # steps from the one that predicts a token to the one whose attention aligns it


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write model.safetensors, config.json and tokenizer.json; the folder appears whole or not at all.

    Raises FamilyError for a model of no family.
    """
    config = {
        "format": FORMAT,
        "recipe": checkpoint.recipe,
        "model": {"kind": family_of(checkpoint.model), **asdict(checkpoint.model.config)},
        "vocabulary": {"size": checkpoint.vocabulary.size, "sha256": checkpoint.vocabulary.digest},
        "metrics": checkpoint.metrics,
        "provenance": checkpoint.provenance,
        "alignment_heads": checkpoint.alignment_heads,
        "alignment_lag": checkpoint.alignment_lag,
    }
    # Each tensor once: the output layer's weight is the embedding's.
    weights = {name: parameter.detach().contiguous() for name, parameter in checkpoint.model.named_parameters()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(folder) as partial:
        (partial / "model.safetensors").write_bytes(safetensors.torch.save(weights))
        (partial / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        checkpoint.vocabulary.save(partial / "tokenizer.json")


def point(link: Path, folder: Path) -> None:
    """Make link lead to folder, its neighbour, in one step: readers see the old one or the new one."""
    replace_link(link, folder.name)


def find(run: Path) -> Path:
    """Return the checkpoint of a run: its best, else its latest, or the folder itself if it is one.

    Raises FileNotFoundError where there is none.
    """
    for folder in (run, run / "best", run / "latest"):
        if (folder / "config.json").is_file():
            return folder
    raise FileNotFoundError(f"{run} holds no checkpoint: neither config.json nor best/ nor latest/ is there.")


def weights_digest(folder: Path) -> str:
    """Return the SHA-256 of a checkpoint's weights, in hexadecimal."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def load(folder: Path) -> Checkpoint:
    """Read a checkpoint for evaluation.

    Raises FileNotFoundError for a missing file and CheckpointError for one with unknown, missing or contradictory
    contents. Nothing in the files is executed.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        settings = dict(config["model"])
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"config.json of {folder} is not a checkpoint's.") from error
    _same_keys(folder, "config.json", {*config, *_LATER}, _KEYS)
    if config["format"] != FORMAT:
        raise CheckpointError(f"{folder} has format {config['format']}, but this version reads format {FORMAT}.")
    kind = settings.pop("kind", None)
    if kind not in FAMILIES:
        raise CheckpointError(f"{folder} holds a model of kind {kind}, but this version knows {', '.join(FAMILIES)}.")
    family = FAMILIES[kind]
    config_type = cast(Any, family.config)
    # A setting that a checkpoint is too old to have takes its default, which is how models were before.
    later = {field.name for field in fields(config_type) if field.default is not MISSING} - set(settings)
    _same_keys(folder, "the model's settings", set(settings), {field.name for field in fields(config_type)} - later)
    vocabulary = Vocabulary.load(folder / "tokenizer.json")
    if vocabulary.digest != config["vocabulary"]["sha256"]:
        raise CheckpointError(f"tokenizer.json of {folder} is not the one that the model was trained with.")
    if not vocabulary.size == config["vocabulary"]["size"] == settings["vocabulary"]:
        raise CheckpointError(
            f"tokenizer.json of {folder} has {vocabulary.size} entries, but the model has {settings['vocabulary']}."
        )
    try:
        model = family.model(config_type(**settings))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"The model's settings in config.json of {folder} cannot be: {error}") from error
    try:
        weights = safetensors.torch.load((folder / "model.safetensors").read_bytes())
    except SafetensorError as error:
        raise CheckpointError(f"model.safetensors of {folder} is not a safetensors file: {error}") from error
    parameters = dict(model.named_parameters())
    _same_keys(folder, "model.safetensors", set(weights), set(parameters))
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise CheckpointError(
                f"{name} in {folder} has shape {tuple(weights[name].shape)}, but its settings ask for "
                f"{tuple(parameter.shape)}."
            )
        parameter.data.copy_(weights[name])
    heads = _alignment_heads(folder, config.get("alignment_heads", []), *model.attention_axes)
    return Checkpoint(
        recipe=config["recipe"],
        model=model.eval(),
        vocabulary=vocabulary,
        metrics=config["metrics"],
        provenance=config["provenance"],
        alignment_heads=heads,
        alignment_lag=_alignment_lag(folder, config.get("alignment_lag", 0)),
    )


def _alignment_heads(folder: Path, found: Any, layers: int, heads: int) -> tuple[tuple[int, int], ...]:
    try:
        named = tuple((int(layer), int(head)) for layer, head in found)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"alignment_heads of {folder} are not pairs of a layer and a head.") from error
    for layer, head in named:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise CheckpointError(
                f"{folder} says that layer {layer}, head {head} aligns, but the model has {layers} layers and {heads} "
                "heads of attention."
            )
    return named


def _alignment_lag(folder: Path, found: Any) -> int:
    if found not in (0, 1):
        raise CheckpointError(f"alignment_lag of {folder} is {found!r}, but it is 0 or 1.")
    return int(found)


def _same_keys(folder: Path, what: str, found: set[str], expected: set[str]) -> None:
    if found != expected:
        unknown, missing = sorted(found - expected), sorted(expected - found)
        raise CheckpointError(f"{what} of {folder}: unknown {unknown}, missing {missing}.")

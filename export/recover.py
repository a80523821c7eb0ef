"""Recovers the checkpoint of an exported Transformer from its portable graphs: `python -m regard.export.recover`.

The weights are those that the graphs hold, which storage has rounded once: to float16, and embeddings to 8 bits a row.
What a run knew besides, its optimiser's state and its figures of validation, is not in a bundle and not recovered.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from regard.contract.bundle import LoadedBundle, load_bundle
from regard.export.errors import BundleError, ExportError, as_export_error
from regard.training.data.vocabulary import Vocabulary
from regard.training.learning.checkpoint import Checkpoint, save
from regard.training.models.transformer import Transformer, TransformerConfig
from regard.v1 import bundle_pb2

PROFILE = "portable"
_HALF, _BYTES, _SCALE = ".float16", ".int8", ".scale"


def recover(folder: Path) -> Checkpoint:
    """Return the checkpoint of the Transformer whose export is in a bundle's folder, in evaluation mode.

    Raises BundleError for a bundle that is damaged, has no portable profile or holds another kind of model.
    """
    with as_export_error():
        bundle = load_bundle(folder, profile=PROFILE)
    weights = _constants(bundle.encode.path) | _constants(bundle.step.path)
    packed = {
        "encoder": _constants(bundle.encode.path, "packed."),
        "decoder": _constants(bundle.step.path, "packed."),
    }
    try:
        config = _sizes(bundle, weights)
        state = _unpack(config, weights, packed)
        model = Transformer(config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(state[name])
    except (KeyError, RuntimeError, ValueError) as error:
        raise BundleError(f"{folder} does not hold the weights of a Transformer of this version: {error}") from error
    attention = bundle.manifest.attention
    provenance = bundle.manifest.provenance
    return Checkpoint(
        # The last of several that went on from one another: its vocabulary and languages are those of all.
        recipe=provenance.recipe.rpartition(", ")[2],
        model=model.eval(),
        vocabulary=Vocabulary.load(bundle.tokenizer_path),
        metrics={},
        provenance={
            **_origin(provenance),
            "recovered_from": {
                "bundle": f"{bundle.manifest.name}/{bundle.manifest.version}",
                "recipes": provenance.recipe,
                "checkpoint_sha256": provenance.checkpoint_sha256,
                "rounding": "as the portable profile stores weights",
            },
        },
        alignment_heads=tuple((head.layer, head.head) for head in attention.alignment_heads),
        alignment_lag=attention.alignment_lag,
    )


def _origin(provenance: bundle_pb2.Provenance) -> dict[str, Any]:
    """Return what is known of the data and of the runs that went before, each of which is the start of the next."""
    terms = {"licence": provenance.licence, "known_limits": provenance.known_limits}
    begun: dict[str, Any] = {}
    for recipe in provenance.recipe.split(", ")[:-1]:
        start = {"start": begun} if begun else {}
        begun = {"recipe": recipe, "epoch": None, "data": provenance.training_data, "terms": terms, **start}
    return {
        "data": {"origin": provenance.training_data},
        "terms": terms,
        **({"start": {**begun, "sha256": ""}} if begun else {}),
    }


def halved(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint whose weights are float16, so that its file is half as long; `load` reads it as float32."""
    return replace(checkpoint, model=copy.deepcopy(checkpoint.model).half())


def _sizes(bundle: LoadedBundle, weights: Mapping[str, Tensor]) -> TransformerConfig:
    embedding = weights["output.embedding.weight"]
    return TransformerConfig(
        vocabulary=embedding.shape[0],
        output=weights["output.bias"].shape[0],
        dim=embedding.shape[1],
        heads=bundle.manifest.attention.heads,
        feed_forward=weights["encoder.0.feed_forward.expand.weight"].shape[0],
        encoder_layers=_layers(weights, "encoder"),
        decoder_layers=_layers(weights, "decoder"),
    )


def _layers(weights: Mapping[str, Tensor], side: str) -> int:
    return 1 + max(int(name.split(".")[1]) for name in weights if name.startswith(f"{side}."))


def _unpack(
    config: TransformerConfig, weights: Mapping[str, Tensor], packed: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """Undo what export does to products of one input: laid side by side, and queries scaled by a power of two."""
    state = {**weights, "embedding.weight": weights["output.embedding.weight"]}
    scale = (config.dim // config.heads) ** 0.5
    for part in ("weight", "bias"):
        for layer in range(config.encoder_layers):
            query, key_value = packed["encoder"][f"packed.{layer}.{part}"].tensor_split([config.dim])
            state[f"encoder.{layer}.attention.query.{part}"] = query * scale
            state[f"encoder.{layer}.attention.key_value.{part}"] = key_value
        memory = weights[f"memory.{part}"].chunk(config.decoder_layers)
        for layer in range(config.decoder_layers):
            query, key_value = packed["decoder"][f"packed.{layer}.{part}"].tensor_split([config.dim])
            state[f"decoder.{layer}.self_attention.query.{part}"] = query
            state[f"decoder.{layer}.self_attention.key_value.{part}"] = key_value
            state[f"decoder.{layer}.cross_attention.query.{part}"] = weights[f"queries.{layer}.{part}"] * scale
            state[f"decoder.{layer}.cross_attention.key_value.{part}"] = memory[layer]
    return state


def _constants(path: Path, start: str = "") -> dict[str, Tensor]:
    """Return a graph's weights by the names that the model has for them, as float32."""
    stored = {
        tensor.name: torch.tensor(numpy_helper.to_array(tensor).astype(np.float32))
        for tensor in onnx.ModelProto.FromString(path.read_bytes()).graph.initializer
    }
    found: dict[str, Tensor] = {}
    for name, values in stored.items():
        if name.endswith(_SCALE):
            continue
        scale = stored.get(name + _SCALE)
        plain = name.removesuffix(_HALF).removesuffix(_BYTES).removeprefix("model.")
        if plain.startswith(start):
            found[plain] = values if scale is None else values * scale
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to a parser."""
    parser.description = "Recover the checkpoint of an exported Transformer from the portable graphs of its bundle."
    parser.epilog = "example: python -m regard.export.recover models/en-xx/1 checkpoints/en-xx-1 --half"
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the folder NAME/VERSION that holds bundle.json")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the checkpoint, which must not be there")
    parser.add_argument("--half", action="store_true", help="store the weights as float16, half as long")


def run(arguments: argparse.Namespace) -> int:
    """Recover as the options say; return the exit code: 0, or 1 with a sentence on stderr."""
    try:
        if arguments.out.exists():
            raise BundleError(f"{arguments.out} is there already.")
        checkpoint = recover(arguments.bundle)
        save(arguments.out, halved(checkpoint) if arguments.half else checkpoint)
    except ExportError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run as a command of its own."""
    parser = argparse.ArgumentParser(prog="python -m regard.export.recover")
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())

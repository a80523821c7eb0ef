"""Runs a Transformer in PyTorch as the reference for its graphs: each row alone, with a KV cache of its own length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.contract.model_ports import NEXT, ModelPorts
from regard.export.parity.runtime import Arrays
from regard.training.models.transformer import Transformer, TransformerMemory, TransformerState


class TransformerMachine:
    """The model as training has it, run row by row, as the ports of its graphs see it.

    Each row is alone and its cache exactly as long as what it has said, so that nothing of how graphs treat buffers,
    padding and neighbours is in the reference.
    """

    def __init__(self, model: Transformer, ports: ModelPorts) -> None:
        self._model = model
        self._ports = ports

    @torch.inference_mode()
    def encode(self, inputs: Arrays) -> Arrays:
        """Read sources; padding of the source axis is 0 in what comes back."""
        source, length = inputs["source"], inputs["source_length"]
        memories = [
            self._model.encode(torch.tensor(row[None, :size]), torch.tensor([size]))[0]
            for row, size in zip(source, length, strict=True)
        ]
        outputs: dict[str, NDArray[np.generic]] = {}
        for layer in range(self._model.config.decoder_layers):
            keys = [memory.keys[0, layer].transpose(1, 2) for memory in memories]
            values = [memory.values[0, layer] for memory in memories]
            outputs[f"memory.keys_{layer}"] = _pad_and_stack(keys, 2, source.shape[1])
            outputs[f"memory.values_{layer}"] = _pad_and_stack(values, 1, source.shape[1])
        real = np.arange(source.shape[1], dtype=np.int64)[None, None, None] < length[:, None, None, None]
        outputs["memory.padding_bias"] = np.where(real, 0, np.finfo(np.float16).min).astype(np.float32)
        return outputs

    @torch.inference_mode()
    def step(self, inputs: Arrays) -> Arrays:
        """Predict a token; of the buffers, entries of which the model knows nothing stay as they are."""

        def read(keys: Tensor, values: Tensor, row: int) -> TransformerMemory:
            size = int((inputs["memory.padding_bias"][row] == 0).sum())
            return TransformerMemory(keys[..., :size, :], values[..., :size, :], torch.ones(1, size, dtype=torch.bool))

        return step_alone(self._model.step, self._ports, inputs, read)


def step_alone(
    step: Callable[[Tensor, TransformerState, Any], tuple[Tensor, TransformerState, Tensor]],
    ports: ModelPorts,
    inputs: Arrays,
    read: Callable[[Tensor, Tensor, int], Any],
) -> Arrays:
    """Predict a token for every row alone, by the step of a model as training has it.

    read makes a row's memory of its keys and values [1, layer, head, source, dim / head], padding included.
    """
    layers = range(ports.layers)
    following = {port.name: inputs[port.name].copy() for port in ports.step.inputs if port.name in inputs}
    scores: list[Tensor] = []
    attention: list[Tensor] = []
    for row, position in enumerate(inputs["state.position"]):

        def stack(name: str, row: int = row) -> Tensor:
            return torch.stack([torch.tensor(inputs[f"{name}_{layer}"][row]) for layer in layers])[None]

        values = stack("memory.values")
        memory = read(stack("memory.keys").transpose(-1, -2), values, row)
        state = TransformerState(
            stack("state.keys")[..., :position, :], stack("state.values")[..., :position, :], torch.tensor([position])
        )
        row_scores, state, weights = step(torch.tensor(inputs["token"][row : row + 1]), state, memory)
        scores.append(row_scores)
        attention.append(nn.functional.pad(weights, (0, values.shape[-2] - weights.shape[-1])))
        for layer in layers:
            following[f"state.keys_{layer}"][row, :, position] = state.keys[0, layer, :, position].numpy()
            following[f"state.values_{layer}"][row, :, position] = state.values[0, layer, :, position].numpy()
    states = {NEXT + name: array for name, array in following.items() if name.startswith("state.")}
    states[f"{NEXT}state.position"] = inputs["state.position"] + 1
    return {**_scores(torch.cat(scores), ports, inputs), **states, "attention": torch.cat(attention).numpy()}


def _scores(scores: Tensor, ports: ModelPorts, inputs: Arrays) -> Arrays:
    """Return scores [batch, predictable] and those over each target vocabulary, of as many rows as are wanted."""
    rows: Sequence[int] = inputs.get("scored_rows", np.array([len(scores)])).tolist()
    vocabularies = (None, *ports.target_vocabularies.values())
    found: dict[str, NDArray[np.generic]] = {}
    for name, tokens, count in zip(ports.scores, vocabularies, rows, strict=True):
        some = scores[:count] if tokens is None else scores[:count, torch.tensor(tokens)].log_softmax(1)
        found[name] = some.numpy()
    return found


def _pad_and_stack(parts: Sequence[Tensor], axis: int, size: int) -> NDArray[np.float32]:
    padded: list[NDArray[np.float32]] = []
    for part in parts:
        array = part.numpy()
        widths = [(0, size - array.shape[axis]) if index == axis else (0, 0) for index in range(array.ndim)]
        padded.append(np.pad(array, widths))
    return np.stack(padded)

"""Shows a captioner with the decoder of a Transformer to the exporter, and runs it to hold its graphs to.

`encode` is the captioner's own, with keys and values laid out as the steps of `regard.export.families.transformer` read
them. It does not know what runs the graphs, nor how they are stored.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from regard.export.families.captioner import picture_axes, sample_pictures
from regard.export.families.graphs import TorchMachine, TraceableModel
from regard.export.families.transformer import PARTS, Body, TransformerStepGraph, name_transformer_ports, sample_steps
from regard.export.families.transformer_machine import step_alone
from regard.export.parity.runtime import Arrays
from regard.training.models.caption_transformer import GridMemory, TransformerDecoder
from regard.training.models.captioner import Captioner


class GridEncodeGraph(nn.Module):
    """pixels -> keys and values of the map for every layer of the decoder, self-attention if the model has it."""

    def __init__(self, model: Captioner) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take and return one tensor for each port, in their order."""
        memory, _, weights = self.model.read(*inputs)
        parts: list[Tensor] = []
        for keys, values in zip(memory.keys.unbind(1), memory.values.unbind(1), strict=True):
            # Keys lie the other way round, as the product of a step with them reads them.
            parts += (keys.transpose(2, 3), values)
        return tuple(parts) if weights is None else (*parts, weights)


def decoder_of(model: Captioner) -> TransformerDecoder:
    """Return the decoder of a captioner that has that of a Transformer."""
    decoder = model.describer.decoder
    assert isinstance(decoder, TransformerDecoder), model.config.decoder
    return decoder


# Not inference_mode: the samples made here are traced with, which refuses tensors that autograd may not see.
@torch.no_grad()
def open_transformer_captioner(model: Captioner, body: Body) -> TraceableModel:
    """Return a model's two graphs with their ports, and inputs of two sizes to trace them by."""
    model = copy.deepcopy(model).eval()
    model.prepare_for_export()
    decoder = decoder_of(model)
    encode = GridEncodeGraph(model).eval()
    samples = sample_pictures(model)
    encoded = [encode(inputs) for inputs in samples]
    count = PARTS * decoder.config.decoder_layers
    return TraceableModel(
        encode=encode,
        step=TransformerStepGraph(decoder, body).eval(),
        ports=name_transformer_ports(
            decoder.config, picture_axes(model, encoded[0][count] if model.config.self_attention else None)
        ),
        encode_samples=samples,
        step_samples=sample_steps(decoder.config, [parts[:count] for parts in encoded]),
    )


class CaptionerMachine:
    """A captioner as training has it, as the ports of its graphs see it; each row of a step is alone."""

    def __init__(self, model: Captioner) -> None:
        opened = open_transformer_captioner(model, "plain")
        self._reader = TorchMachine(opened)
        self._ports = opened.ports
        self._model = model

    def encode(self, inputs: Arrays) -> Arrays:
        """Read pictures."""
        return self._reader.encode(inputs)

    @torch.inference_mode()
    def step(self, inputs: Arrays) -> Arrays:
        """Predict a token; of the buffers, entries of which the model knows nothing stay as they are."""
        return step_alone(self._model.step, self._ports, inputs, lambda keys, values, _: GridMemory(keys, values))

"""Rebuilds the torch model of a bundle from its portable graphs, so that both can be timed on the same weights."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from regard.training.models.rnn import Rnn, RnnConfig


def rebuild(bundle: Path) -> Rnn:
    """Return the recurrent model whose export is in `bundle`, in evaluation mode.

    Raises:
        KeyError: the graphs do not hold a recurrent model's weights.
    """
    encode, step = _constants(bundle / "encode.portable.onnx"), _constants(bundle / "step.portable.onnx")
    weights = encode | step
    embedding, readout = weights["output.embedding.weight"], weights["readout.weight"]
    encoder = weights["cell.context.weight"].shape[1] // 2
    attention = weights["attention.query.weight"].shape[0]
    model = Rnn(
        RnnConfig(
            vocabulary=embedding.shape[0],
            output=weights["output.bias"].shape[0],
            embedding=readout.shape[0],
            encoder=encoder,
            decoder=weights["cell.recurrent.weight"].shape[1],
            attention=attention,
        )
    ).eval()
    # Products without a bias come out of the exporter transposed and without their names.
    weights["attention.key.weight"] = _only(encode, (2 * encoder, attention)).T
    weights["attention.energy.weight"] = _only(step, (attention, 1)).T
    weights["embedding.weight"] = embedding
    for direction, suffix in enumerate(("_l0", "_l0_reverse")):
        bias_input, bias_recurrent = encode["encoder.onnx_bias"][direction].chunk(2)
        for part, values in (
            ("weight_ih", encode["encoder.onnx_input"][direction]),
            ("weight_hh", encode["encoder.onnx_recurrent"][direction]),
            ("bias_ih", bias_input),
            ("bias_hh", bias_recurrent),
        ):
            update, reset, new = values.chunk(3)
            weights[f"encoder.gru.{part}{suffix}"] = torch.cat((reset, update, new))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    return model


def _constants(path: Path) -> dict[str, torch.Tensor]:
    graph = onnx.ModelProto.FromString(path.read_bytes()).graph
    return {
        tensor.name.removesuffix(".float16").removeprefix("model."): torch.tensor(
            numpy_helper.to_array(tensor).astype(np.float32)
        )
        for tensor in graph.initializer
    }


def _only(constants: dict[str, torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor:
    (found,) = [values for name, values in constants.items() if name.startswith("val_") and values.shape == shape]
    return found

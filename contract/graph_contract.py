"""Holds the two graphs that a manifest lists to the graph contract: they must have the ports of one model.

Where the ports were read and what is in an ONNX file is no matter here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from regard.contract.errors import BundleError
from regard.contract.image_input import ImageInput
from regard.contract.model_ports import ModelPorts, Part, name_ports, with_target_vocabularies
from regard.contract.ports import ENCODER_ATTENTION, TARGET, Axes, GraphSpec, Port, check_same, show_axes


def read_predictable(step: GraphSpec, *, vocabulary_size: int, special: int, where: str) -> int:
    """Number of tokens that a step can predict: the first ones of the vocabulary, its special tokens among them.

    Raises:
        BundleError: there are no scores, or they have fewer columns than special tokens or more than the vocabulary.
    """
    axes = next((port.axes for port in step.outputs if port.name == port.role == "scores"), ())
    columns = axes[-1] if axes else 0
    if not isinstance(columns, int) or not special < columns <= vocabulary_size:
        raise BundleError(
            f"{where}: the scores have axes {show_axes(axes)}, expected [batch, N] with N from {special + 1} "
            f"to the vocabulary_size {vocabulary_size}"
        )
    return columns


def check_graphs(
    encode: GraphSpec,
    step: GraphSpec,
    *,
    vocabulary_size: int,
    predictable: int,
    target_vocabularies: Mapping[str, NDArray[np.int64]],
    layers: int,
    heads: int,
    image: ImageInput | None,
    where: str,
) -> ModelPorts:
    """Return the ports of the model that both graphs are of, whose memory and state are those that its step takes.

    Args:
        predictable: columns of the scores, as `read_predictable` says.
        target_vocabularies: ids of each target language that has scores of its own.
        layers, heads: of attention; both 0 for a model without it, whose step must then have no such port.
        image: of a model that reads pictures, else None.
        where: the pair in messages, for example `profile 'cpu'`.

    Raises:
        BundleError: names the port, what the manifest says and what was expected.
    """
    made = {port.name: port for port in encode.outputs}
    memory, state = (
        [Part(port.name.removeprefix(f"{role}."), port.dtype, port.axes) for port in step.inputs if port.role == role]
        for role in ("memory", "state")
    )
    cells = None if image is None else image.cells
    # All pictures have the same number of cells, so that the axis may be fixed.
    fixed = any(port.role == "attention" and port.axes[-1] == cells for port in step.outputs)
    # Buffers begin empty and what comes with them as zeros, so that encoding need not make any.
    grows = any(TARGET in part.axes for part in state)
    ports = with_target_vocabularies(
        name_ports(
            memory=memory,
            state=state,
            vocabulary=vocabulary_size,
            predictable=predictable,
            layers=layers,
            heads=heads,
            initial_state=[part.field for part in state if not grows or f"state.{part.field}" in made],
            pixels=None if image is None else (image.height, image.width),
            cells=cells if fixed else None,
            encoder_attention=_encoder_attention(made.get(ENCODER_ATTENTION), cells),
        ),
        target_vocabularies,
    )
    if all(port.role == "encoder_attention" for port in encode.outputs):
        raise BundleError(f"{where}: encode outputs hold neither memory nor state; at least one is needed")
    check_same(ports.encode.inputs, encode.inputs, f"{where}: encode inputs")
    check_same(ports.encode.outputs, encode.outputs, f"{where}: encode outputs")
    check_same(ports.step.inputs, step.inputs, f"{where}: step inputs")
    check_same(ports.step.outputs, step.outputs, f"{where}: step outputs")
    if [port.name for port in step.outputs if port.role == "scores"] != list(ports.scores):
        raise BundleError(f"{where}: step outputs: the scores are not in the order of target_vocabularies")
    return ports


def _encoder_attention(port: Port | None, cells: int | None) -> Axes | None:
    """Return the axes of the encoder's own attention, whose layers and heads are free; of pictures, all are fixed."""
    if port is None:
        return None
    if cells is None:
        return ("batch", *port.axes[1:3], "query", "source")
    return ("batch", *(axis if isinstance(axis, int) else "NUMBER" for axis in port.axes[1:3]), cells, cells)

"""States which ports the two graphs of a model have: export makes graphs with them, and a manifest must list them.

A model chooses its memory and state; all else follows from its sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from regard.contract.ports import ENCODER_ATTENTION, STATE_OUTPUT_PREFIX, TARGET, Axes, Port, Role
from regard.contract.target_vocabulary import name_scores

NEXT = STATE_OUTPUT_PREFIX
BATCH, SOURCE_AXIS, TARGET_AXIS = "batch", "source", TARGET


class GraphPorts(NamedTuple):
    """The tensors of one graph, in the graph's order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class Part(NamedTuple):
    """One field of a model's memory or state."""

    field: str
    dtype: str
    axes: Axes


class PictureAxes(TypedDict):
    """What `name_ports` must know of a model that reads pictures; all None of one that reads ids."""

    pixels: tuple[int, int] | None
    cells: int | None
    encoder_attention: Axes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPorts:
    """The tensors of both graphs of a model, with the sizes that an engine must know.

    Attributes:
        vocabulary: ids that a source may hold.
        predictable: ids that can be predicted, the first ones of the vocabulary: the columns of `scores`.
        target_vocabularies: ids of each target language that has scores of its own, ascending.
        layers: of `attention`; 0 for a model without attention.
        heads: of `attention`; 0 for a model without attention.
    """

    encode: GraphPorts
    step: GraphPorts
    vocabulary: int
    predictable: int
    layers: int
    heads: int
    target_vocabularies: Mapping[str, NDArray[np.int64]] = field(default_factory=dict[str, NDArray[np.int64]])

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of the step's scores: over all tokens, then over those of each target vocabulary."""
        return ("scores", *map(name_scores, self.target_vocabularies))

    @property
    def picture(self) -> tuple[int, ...] | None:
        """Shape [height, width, 3] of what `encode` reads if that is a picture, else None."""
        (first, *_) = self.encode.inputs
        return tuple(int(size) for size in first.axes[1:]) if first.role == "pixels" else None

    @property
    def cells(self) -> int | None:
        """How many positions a source has if that is the same for all, as of pictures, else None."""
        positions = {port.axes[-1] for port in self.step.outputs if port.role == "attention"}
        fixed = [size for size in positions if isinstance(size, int)]
        return fixed[0] if fixed else None

    @property
    def shared(self) -> dict[str, str]:
        """The step's outputs that can lie in the memory of an input, and those inputs: buffers with an axis target."""
        return {NEXT + port.name: port.name for port in self.step.inputs if TARGET_AXIS in port.axes}


def with_target_vocabularies(ports: ModelPorts, vocabularies: Mapping[str, NDArray[np.int64]]) -> ModelPorts:
    """Return the ports of a model that can also score the tokens of one target language alone, if there are any."""
    if not vocabularies:
        return ports
    scored = _port("scored_rows", "int64", 1 + len(vocabularies))
    scores = [
        _port("scores", "float32", BATCH, len(tokens), name=name_scores(language))
        for language, tokens in vocabularies.items()
    ]
    step = GraphPorts((*ports.step.inputs, scored), (*ports.step.outputs, *scores))
    return replace(ports, step=step, target_vocabularies=vocabularies)


def name_ports(
    *,
    memory: Sequence[Part],
    state: Sequence[Part],
    vocabulary: int,
    predictable: int,
    layers: int,
    heads: int,
    initial_state: Collection[str] | None = None,
    pixels: tuple[int, int] | None = None,
    cells: int | None = None,
    encoder_attention: Axes | None = None,
) -> ModelPorts:
    """Return the ports of a model with these fields of memory and state.

    Args:
        memory, state: what `encode` makes and a step takes.
        vocabulary, predictable, layers, heads: see `ModelPorts`.
        initial_state: the fields of state that `encode` makes, the others begin as zeros; None for all of them.
        pixels: height and width of the pictures that `encode` reads, None if it reads ids.
        cells: how many positions each source has, None where that varies.
        encoder_attention: axes of the encoder's own attention, None if `encode` does not return it.

    Raises:
        ValueError: a field's first axis is not batch.
    """
    for part in (*memory, *state):
        if not part.axes or part.axes[0] != BATCH:
            raise ValueError(f"{part.field} has axes {part.axes}, but the first axis of memory and state is batch.")
    memory_ports = [_port("memory", part.dtype, *part.axes, name=f"memory.{part.field}") for part in memory]
    state_ports = [_port("state", part.dtype, *part.axes, name=f"state.{part.field}") for part in state]
    made = [
        port
        for part, port in zip(state, state_ports, strict=True)
        if initial_state is None or part.field in initial_state
    ]
    return ModelPorts(
        encode=GraphPorts(
            inputs=(_port("source", "int64", BATCH, SOURCE_AXIS), _port("source_length", "int64", BATCH))
            if pixels is None
            else (_port("pixels", "uint8", BATCH, *pixels, 3),),
            outputs=(
                *memory_ports,
                *made,
                *(
                    [_port("encoder_attention", "float32", *encoder_attention, name=ENCODER_ATTENTION)]
                    if encoder_attention
                    else ()
                ),
            ),
        ),
        step=GraphPorts(
            inputs=(_port("token", "int64", BATCH), *state_ports, *memory_ports),
            outputs=(
                _port("scores", "float32", BATCH, predictable),
                *(replace(port, name=NEXT + port.name) for port in state_ports),
                *([_port("attention", "float32", BATCH, layers, heads, cells or SOURCE_AXIS)] if layers else ()),
            ),
        ),
        vocabulary=vocabulary,
        predictable=predictable,
        layers=layers,
        heads=heads,
    )


def _port(role: Role, dtype: str, *axes: str | int, name: str = "") -> Port:
    return Port(name=name or role, role=role, dtype=dtype, axes=axes)

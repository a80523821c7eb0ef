"""Names the tensors that go into and come out of the two graphs of a model: the one list of their names.

Knows neither torch nor ONNX, nor which model has which memory and state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.contract.ports import STATE_OUTPUT_PREFIX, TARGET, Axes, Port
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
    """Return the ports of a model that can also score the tokens of one target language alone."""
    scored = Port(name="scored_rows", role="scored_rows", dtype="int64", axes=(1 + len(vocabularies),))
    scores = tuple(
        Port(name=name_scores(language), role="scores", dtype="float32", axes=("batch", len(tokens)))
        for language, tokens in vocabularies.items()
    )
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
    initial_state: bool = True,
) -> ModelPorts:
    """Return the ports of a model with these fields of memory and state.

    initial_state tells whether `encode` makes the first state; otherwise it is all zeros.

    Raises ValueError if a field's first axis is not batch.
    """
    for part in (*memory, *state):
        if not part.axes or part.axes[0] != "batch":
            raise ValueError(f"{part.field} has axes {part.axes}, but the first axis of memory and state is batch.")
    memory_ports = tuple(
        Port(name=f"memory.{part.field}", role="memory", dtype=part.dtype, axes=part.axes) for part in memory
    )
    state_ports = tuple(
        Port(name=f"state.{part.field}", role="state", dtype=part.dtype, axes=part.axes) for part in state
    )
    next_ports = tuple(
        Port(name=NEXT + port.name, role="state", dtype=port.dtype, axes=port.axes) for port in state_ports
    )
    source = Port(name="source", role="source", dtype="int64", axes=("batch", "source"))
    length = Port(name="source_length", role="source_length", dtype="int64", axes=("batch",))
    token = Port(name="token", role="token", dtype="int64", axes=("batch",))
    scores = Port(name="scores", role="scores", dtype="float32", axes=("batch", predictable))
    attention = Port(name="attention", role="attention", dtype="float32", axes=("batch", layers, heads, "source"))
    return ModelPorts(
        encode=GraphPorts(inputs=(source, length), outputs=(*memory_ports, *(state_ports if initial_state else ()))),
        step=GraphPorts(
            inputs=(token, *state_ports, *memory_ports),
            outputs=(scores, *next_ports, *((attention,) if layers else ())),
        ),
        vocabulary=vocabulary,
        predictable=predictable,
        layers=layers,
        heads=heads,
    )

"""Holds opened graphs to the manifest of their bundle, and tells the engine what it must know of them.

It knows the runtime that opened them only by how it describes a port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from regard.server.bundle.bundle import LoadedBundle
from regard.server.bundle.ports import TARGET, PortSpec
from regard.server.engine.decoder import DecoderFacts, Shortlist
from regard.server.errors import BundleError

_ELEMENT_TYPES: Mapping[str, str] = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


class RealPort(Protocol):
    """An input or output of a graph as ONNX Runtime describes it."""

    @property
    def name(self) -> str:
        """In the graph."""
        ...

    @property
    def type(self) -> str:
        """For example `tensor(float)`."""
        ...

    @property
    def shape(self) -> list[int | str | None]:
        """A number for each axis that is fixed, a name or None for one that varies."""
        ...


def check_ports(promised: Sequence[PortSpec], real: Sequence[RealPort], where: str) -> None:
    """Check that a graph has the promised ports, of their types, with the same axes fixed.

    Args:
        where: the ports in messages.

    Raises:
        BundleError: names the port, what it is and what the manifest says.
    """
    found = {port.name: port for port in real}
    names = {port.name for port in promised}
    if names != found.keys():
        raise BundleError(f"{where} are {', '.join(sorted(found))}, but the manifest says {', '.join(sorted(names))}")
    for port in promised:
        node = found[port.name]
        if _ELEMENT_TYPES.get(node.type) != port.dtype.name:
            raise BundleError(f"{where}: {port.name} is {node.type}, but the manifest says {port.dtype}")
        fits = len(node.shape) == len(port.axes) and all(
            size == axis if isinstance(axis, int) else not isinstance(size, int)
            for size, axis in zip(node.shape, port.axes, strict=True)
        )
        if not fits:
            raise BundleError(f"{where}: {port.name} has shape {node.shape}, but the manifest says {list(port.axes)}")


def describe(bundle: LoadedBundle) -> DecoderFacts:
    """Return what the engine must know of a bundle.

    Raises:
        BundleError: a tensor has an axis that varies and is neither batch nor source, nor, in a state, target, so that
            no buffer can hold it.
    """
    memory, state = (tuple(port for port in bundle.step.inputs if port.role == role) for role in ("memory", "state"))
    for ports, known in ((memory, {"batch", "source"}), (state, {"batch", "source", TARGET})):
        for port in ports:
            named = [axis for axis in port.axes if isinstance(axis, str)]
            if not known.issuperset(named) or named.count(TARGET) > 1:
                raise BundleError(
                    f"bundle {bundle.directory}: {port.name} has axes {port.axes}, which no buffer can hold"
                )
    return DecoderFacts(
        memory=memory,
        state=state,
        vocabulary_size=bundle.vocabulary_size,
        output_size=bundle.predictable,
        layers=bundle.layers,
        heads=bundle.heads,
        alignment_heads=bundle.alignment_heads,
        alignment_lag=bundle.alignment_lag,
        pad_id=bundle.pad_id,
        bos_id=bundle.begin_id,
        eos_id=bundle.end_id,
        suppressed_ids=(bundle.pad_id, bundle.unknown_id, bundle.begin_id),
        max_source_tokens=bundle.max_source_tokens,
        max_target_tokens=bundle.max_target_tokens,
        state_in_place=bundle.state_in_place,
        pixels=None if bundle.image is None else (bundle.image.height, bundle.image.width),
        encoder_attention=bundle.shows_encoder_attention,
        shortlists=tuple(
            Shortlist(source_end=bundle.target_end_ids[language], tokens=tokens, scores=scores)
            for language, tokens, scores in bundle.target_vocabularies
        ),
    )

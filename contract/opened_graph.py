"""Holds the ports of an opened graph to those that the manifest promises; whoever opened it says what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from regard.contract.errors import BundleError
from regard.contract.ports import Port

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


def check_ports(promised: Sequence[Port], real: Sequence[RealPort], where: str) -> None:
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
        if _ELEMENT_TYPES.get(node.type) != port.dtype:
            raise BundleError(f"{where}: {port.name} is {node.type}, but the manifest says {port.dtype}")
        fits = len(node.shape) == len(port.axes) and all(
            size == axis if isinstance(axis, int) else not isinstance(size, int)
            for size, axis in zip(node.shape, port.axes, strict=True)
        )
        if not fits:
            raise BundleError(f"{where}: {port.name} has shape {node.shape}, but the manifest says {list(port.axes)}")

"""Reads the graphs of a bundle and their ports from its manifest, and compares ports.

Which ports a model's graphs must have is `regard.contract.model_ports`'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from regard.contract.errors import BundleError
from regard.v1 import bundle_pb2

Role = Literal[
    "source",
    "source_length",
    "pixels",
    "memory",
    "state",
    "encoder_attention",
    "token",
    "scored_rows",
    "scores",
    "attention",
]
Axes = tuple[str | int, ...]

STATE_OUTPUT_PREFIX = "next."
# Axis along which a state grows by one entry a step.
TARGET = "target"
# What encoding itself looked at.
ENCODER_ATTENTION = "attention.encoder"

_ROLES: Mapping[int, Role] = {bundle_pb2.PortRole.Value(f"PORT_ROLE_{role.upper()}"): role for role in get_args(Role)}
_DTYPES = ("float32", "float16", "int64", "int32", "int8", "uint8", "bool")
_PORT_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_AXIS_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One input or output of a graph.

    Attributes:
        name: in the graph.
        role: what it is for.
        dtype: of its elements, as numpy and ONNX write it: float32, float16, int64, bool, uint8.
        axes: one for each dimension: a name where it varies, a number where it does not. Axis 0 is always `batch`, but
            for scored_rows.
    """

    name: str
    role: Role
    dtype: str
    axes: Axes

    def __str__(self) -> str:
        """The port as messages write it, without its name."""
        return f"{self.dtype} {show_axes(self.axes)} of role {self.role}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSpec:
    """One graph file and the ports that it must have, in this order."""

    path: Path
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def read_graph(graph: bundle_pb2.Graph, *, where: str, directory: Path) -> GraphSpec:
    """Turn one graph of the manifest into a GraphSpec.

    Args:
        graph: of the manifest; its file is already known to be one of the bundle.
        where: the graph in messages, for example `profile 'cpu': step`.
        directory: of the bundle.

    Raises:
        BundleError: a field is missing or has a value that no port can have.
    """
    for field in ("opset", "ir_version"):
        if getattr(graph, field) < 1:
            raise BundleError(f"{where}: {field} is missing; a positive number is needed")
    ports: list[list[Port]] = []
    for side, listed in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        ports.append([_read_port(port, where=f"{where}: {side}[{index}]") for index, port in enumerate(listed)])
        names = [port.name for port in ports[-1]]
        for name in names:
            if names.count(name) > 1:
                raise BundleError(f"{where}: {side} name {name!r} more than once")
    return GraphSpec(path=directory / graph.file, inputs=tuple(ports[0]), outputs=tuple(ports[1]))


def _read_port(port: bundle_pb2.Port, *, where: str) -> Port:
    if not _PORT_NAME.fullmatch(port.name):
        raise BundleError(f"{where}: the name {port.name[:80]!r} is not one of a port")
    role = _ROLES.get(port.role)
    if role is None:
        raise BundleError(f"{where}: port {port.name!r} has no role")
    if port.dtype not in _DTYPES:
        raise BundleError(f"{where}: port {port.name!r} has dtype {port.dtype!r}, expected one of {', '.join(_DTYPES)}")
    axes: list[str | int] = []
    for axis in port.axes:
        if axis.isascii() and axis.isdigit() and int(axis) > 0:
            axes.append(int(axis))
        elif _AXIS_NAME.fullmatch(axis):
            axes.append(axis)
        else:
            raise BundleError(
                f"{where}: port {port.name!r} has axis {axis[:80]!r}, expected a name or a positive number"
            )
    if not axes or (axes[0] != "batch" and role != "scored_rows"):
        raise BundleError(f"{where}: port {port.name!r} has axes {show_axes(axes)}, but the first one must be 'batch'")
    return Port(name=port.name, role=role, dtype=port.dtype, axes=tuple(axes))


def check_same(expected: Iterable[Port], found: Iterable[Port], where: str) -> None:
    """Check that ports, in whatever order, are those that are expected.

    Raises:
        BundleError: begins with `where` and names what is there and what is expected.
    """
    wanted, there = ({port.name: port for port in ports} for ports in (expected, found))
    if wanted.keys() != there.keys():
        names = [", ".join(sorted(ports)) or "none" for ports in (there, wanted)]
        raise BundleError(f"{where} are {names[0]}, expected {names[1]}")
    for name, port in wanted.items():
        if port != there[name]:
            raise BundleError(f"{where}: {name!r} is {there[name]}, expected {port}")


def show_axes(axes: Iterable[str | int]) -> str:
    """Axes as messages write them."""
    return f"[{', '.join(str(axis) for axis in axes)}]"

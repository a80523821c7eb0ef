"""Reads the graphs of a bundle from its manifest and holds them to the graph contract, port by port.

It does not know what is in an ONNX file: `server.session` checks the real ports against these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.v1 import bundle_pb2
from server.errors import BundleError

Role = Literal["source", "source_length", "memory", "state", "token", "scores", "attention"]
Axes = tuple[str | int, ...]

STATE_OUTPUT_PREFIX = "next."
# Axis along which a state grows by one entry a step.
TARGET = "target"

_ROLES: Mapping[int, Role] = {
    bundle_pb2.PORT_ROLE_SOURCE: "source",
    bundle_pb2.PORT_ROLE_SOURCE_LENGTH: "source_length",
    bundle_pb2.PORT_ROLE_MEMORY: "memory",
    bundle_pb2.PORT_ROLE_STATE: "state",
    bundle_pb2.PORT_ROLE_TOKEN: "token",
    bundle_pb2.PORT_ROLE_SCORES: "scores",
    bundle_pb2.PORT_ROLE_ATTENTION: "attention",
}
_DTYPES = ("float32", "float16", "int64", "int32", "int8", "uint8", "bool")
_PORT_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_AXIS_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec:
    """One input or output of a graph.

    Attributes:
        name: in the graph.
        role: what it is for.
        dtype: of its elements.
        axes: one for each dimension: a name where it varies, a number where it does not. Axis 0 is always `batch`.
    """

    name: str
    role: Role
    dtype: np.dtype[Any]
    axes: Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSpec:
    """One graph file and the ports that it must have, in this order."""

    path: Path
    inputs: tuple[PortSpec, ...]
    outputs: tuple[PortSpec, ...]


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
    ports: list[list[PortSpec]] = []
    for side, listed in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        ports.append([_read_port(port, where=f"{where}: {side}[{index}]") for index, port in enumerate(listed)])
        names = [port.name for port in ports[-1]]
        for name in names:
            if names.count(name) > 1:
                raise BundleError(f"{where}: {side} name {name!r} more than once")
    return GraphSpec(path=directory / graph.file, inputs=tuple(ports[0]), outputs=tuple(ports[1]))


def _read_port(port: bundle_pb2.Port, *, where: str) -> PortSpec:
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
    if not axes or axes[0] != "batch":
        raise BundleError(f"{where}: port {port.name!r} has axes {_show(axes)}, but the first one must be 'batch'")
    return PortSpec(name=port.name, role=role, dtype=np.dtype(port.dtype), axes=tuple(axes))


def check_graphs(encode: GraphSpec, step: GraphSpec, *, predictable: int, layers: int, heads: int, where: str) -> None:
    """Check that the two graphs fit each other, the vocabulary and the attention axes.

    Args:
        predictable: columns of the scores, as `read_predictable` says.
        layers, heads: of attention; both 0 for a model without it, whose step must then have no such port.
        where: the pair in messages, for example `profile 'cpu'`.

    Raises:
        BundleError: names the port, what was expected and what the manifest says.
    """
    _allow(encode.inputs, {"source", "source_length"}, f"{where}: encode inputs")
    _allow(encode.outputs, {"memory", "state"}, f"{where}: encode outputs")
    _allow(step.inputs, {"token", "memory", "state"}, f"{where}: step inputs")
    _allow(step.outputs, {"scores", "state", "attention"}, f"{where}: step outputs")
    _one(encode.inputs, "source", "int64", ("batch", "source"), f"{where}: encode inputs")
    _one(encode.inputs, "source_length", "int64", ("batch",), f"{where}: encode inputs")
    _one(step.inputs, "token", "int64", ("batch",), f"{where}: step inputs")
    _one(step.outputs, "scores", "float32", ("batch", predictable), f"{where}: step outputs")
    if layers:
        _one(step.outputs, "attention", "float32", ("batch", layers, heads, "source"), f"{where}: step outputs")
    elif _of_role(step.outputs, "attention"):
        raise BundleError(f"{where}: step outputs have an attention port, but the manifest says 0 layers of attention")
    if not encode.outputs:
        raise BundleError(f"{where}: encode outputs hold neither memory nor state; at least one is needed")
    for role in ("memory", "state"):
        made, taken = _of_role(encode.outputs, role), _of_role(step.inputs, role)
        _named_after(role, made, f"{where}: encode outputs")
        _named_after(role, taken, f"{where}: step inputs")
        if role == "state" and any(TARGET in port.axes for port in taken):
            # Buffers begin empty and what comes with them as zeros, so that encoding need not make any.
            names = {port.name for port in made}
            taken = [port for port in taken if port.name in names]
        _same(made, taken, f"{where}: {role} ports of encode outputs and of step inputs")
    written = _of_role(step.outputs, "state")
    for port in written:
        if not port.name.startswith(STATE_OUTPUT_PREFIX):
            raise BundleError(f"{where}: step output {port.name!r} has role state, so its name must start with 'next.'")
    evolved = [
        PortSpec(name=port.name.removeprefix(STATE_OUTPUT_PREFIX), role=port.role, dtype=port.dtype, axes=port.axes)
        for port in written
    ]
    _same(_of_role(step.inputs, "state"), evolved, f"{where}: state ports of step inputs and of step outputs")


def read_predictable(step: GraphSpec, *, vocabulary_size: int, special: int, where: str) -> int:
    """Number of tokens that a step can predict: the first ones of the vocabulary, its special tokens among them.

    Raises:
        BundleError: there are no scores, or they have fewer columns than special tokens or more than the vocabulary.
    """
    axes = next((port.axes for port in step.outputs if port.role == "scores"), ())
    columns = axes[-1] if axes else 0
    if not isinstance(columns, int) or not special < columns <= vocabulary_size:
        raise BundleError(
            f"{where}: the scores have axes {_show(axes)}, expected [batch, N] with N from {special + 1} "
            f"to the vocabulary_size {vocabulary_size}"
        )
    return columns


def read_columns(step: GraphSpec) -> int:
    """Columns of the scores of a checked graph."""
    return next(int(port.axes[1]) for port in step.outputs if port.role == "scores")


def _of_role(ports: Iterable[PortSpec], role: str) -> list[PortSpec]:
    return [port for port in ports if port.role == role]


def _allow(ports: Iterable[PortSpec], roles: Collection[str], where: str) -> None:
    for port in ports:
        if port.role not in roles:
            raise BundleError(
                f"{where}: port {port.name!r} has role {port.role}, allowed are {', '.join(sorted(roles))}"
            )


def _one(ports: Iterable[PortSpec], role: Role, dtype: str, axes: Axes, where: str) -> None:
    found = _of_role(ports, role)
    if len(found) != 1:
        raise BundleError(f"{where}: expected one port of role {role}, found {len(found)}")
    port = found[0]
    if port.name != role:
        raise BundleError(f"{where}: the port of role {role} is named {port.name!r}, expected {role!r}")
    if port.dtype != np.dtype(dtype):
        raise BundleError(f"{where}: port {role!r} has dtype {port.dtype}, expected {dtype}")
    if port.axes != axes:
        raise BundleError(f"{where}: port {role!r} has axes {_show(port.axes)}, expected {_show(axes)}")


def _named_after(role: str, ports: Iterable[PortSpec], where: str) -> None:
    for port in ports:
        if not port.name.startswith(f"{role}."):
            raise BundleError(f"{where}: port {port.name!r} has role {role}, so its name must start with '{role}.'")


def _same(left: Iterable[PortSpec], right: Iterable[PortSpec], where: str) -> None:
    one, other = {port.name: port for port in left}, {port.name: port for port in right}
    if one.keys() != other.keys():
        raise BundleError(f"{where} differ: {_list(one)} against {_list(other)}")
    for name, port in one.items():
        if port != other[name]:
            raise BundleError(f"{where} differ: {name!r} is {_describe(port)} against {_describe(other[name])}")


def _describe(port: PortSpec) -> str:
    return f"{port.dtype} {_show(port.axes)}"


def _show(axes: Iterable[str | int]) -> str:
    return f"[{', '.join(str(axis) for axis in axes)}]"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"

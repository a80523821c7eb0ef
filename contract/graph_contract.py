"""Holds the two graphs of a profile to the graph contract, port by port.

It does not know where the ports were read, nor what is in an ONNX file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from regard.contract.errors import BundleError
from regard.contract.image_input import ImageInput
from regard.contract.ports import (
    ENCODER_ATTENTION,
    STATE_OUTPUT_PREFIX,
    TARGET,
    Axes,
    GraphSpec,
    Port,
    Role,
    show_axes,
)


def check_graphs(
    encode: GraphSpec,
    step: GraphSpec,
    *,
    predictable: int,
    vocabularies: Mapping[str, int],
    layers: int,
    heads: int,
    image: ImageInput | None,
    where: str,
) -> None:
    """Check that the two graphs fit each other, the vocabulary, the attention axes and what the model reads.

    Args:
        predictable: columns of the scores, as `read_predictable` says.
        vocabularies: how many tokens each target vocabulary has, by the name of the scores over them.
        layers, heads: of attention; both 0 for a model without it, whose step must then have no such port.
        image: of a model that reads pictures, else None.
        where: the pair in messages, for example `profile 'cpu'`.

    Raises:
        BundleError: names the port, what was expected and what the manifest says.
    """
    _check_encode(encode, image, where)
    _allow(step.inputs, {"token", "scored_rows", "memory", "state"}, f"{where}: step inputs")
    _allow(step.outputs, {"scores", "state", "attention"}, f"{where}: step outputs")
    _one(step.inputs, "token", "int64", ("batch",), f"{where}: step inputs")
    _check_scores(step, {"scores": predictable, **vocabularies}, f"{where}: step")
    if layers:
        axes: Axes = ("batch", layers, heads, "source")
        # All pictures have the same number of cells, so the axis may be fixed.
        fixed = axes if image is None else ("batch", layers, heads, image.cells)
        _one(step.outputs, "attention", "float32", axes, f"{where}: step outputs", fixed)
    elif _of_role(step.outputs, "attention"):
        raise BundleError(f"{where}: step outputs have an attention port, but the manifest says 0 layers of attention")
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
        Port(name=port.name.removeprefix(STATE_OUTPUT_PREFIX), role=port.role, dtype=port.dtype, axes=port.axes)
        for port in written
    ]
    _same(_of_role(step.inputs, "state"), evolved, f"{where}: state ports of step inputs and of step outputs")


def _check_scores(step: GraphSpec, columns: Mapping[str, int], where: str) -> None:
    """Check that there are scores over all tokens and over each target vocabulary, and a way to say which."""
    promised = [Port(name=name, role="scores", dtype="float32", axes=("batch", size)) for name, size in columns.items()]
    found = _of_role(step.outputs, "scores")
    _same(promised, found, f"{where} outputs: the scores that the manifest wants and those that there are")
    if [port.name for port in found] != list(columns):
        raise BundleError(f"{where} outputs: the scores are not in the order of target_vocabularies")
    if len(columns) > 1:
        _one(step.inputs, "scored_rows", "int64", (len(columns),), f"{where} inputs")
    elif _of_role(step.inputs, "scored_rows"):
        raise BundleError(f"{where} inputs have a port scored_rows, but there are no target_vocabularies")


def _check_encode(encode: GraphSpec, image: ImageInput | None, where: str) -> None:
    if image is None:
        _allow(encode.inputs, {"source", "source_length"}, f"{where}: encode inputs")
        _one(encode.inputs, "source", "int64", ("batch", "source"), f"{where}: encode inputs")
        _one(encode.inputs, "source_length", "int64", ("batch",), f"{where}: encode inputs")
    else:
        _allow(encode.inputs, {"pixels"}, f"{where}: encode inputs")
        _one(encode.inputs, "pixels", "uint8", ("batch", image.height, image.width, 3), f"{where}: encode inputs")
    _allow(encode.outputs, {"memory", "state", "encoder_attention"}, f"{where}: encode outputs")
    looked = _of_role(encode.outputs, "encoder_attention")
    if len(looked) == len(encode.outputs):
        raise BundleError(f"{where}: encode outputs hold neither memory nor state; at least one is needed")
    for port in looked:
        sound = port.name == ENCODER_ATTENTION and port.dtype == "float32" and len(port.axes) == 5
        if image is not None:
            # It is served, and all pictures have as many cells.
            named = any(isinstance(axis, str) for axis in port.axes[1:])
            sound = sound and not named and port.axes[3:] == (image.cells, image.cells)
        if not sound:
            raise BundleError(
                f"{where}: encode outputs: {port.name!r} is {_describe(port)}, expected {ENCODER_ATTENTION!r} "
                f"float32 [batch, layer, head, query, source]{'' if image is None else f' of {image.cells} cells'}"
            )


def _of_role(ports: Iterable[Port], role: str) -> list[Port]:
    return [port for port in ports if port.role == role]


def _allow(ports: Iterable[Port], roles: Collection[str], where: str) -> None:
    for port in ports:
        if port.role not in roles:
            raise BundleError(
                f"{where}: port {port.name!r} has role {port.role}, allowed are {', '.join(sorted(roles))}"
            )


def _one(ports: Iterable[Port], role: Role, dtype: str, axes: Axes, where: str, or_axes: Axes | None = None) -> None:
    found = _of_role(ports, role)
    if len(found) != 1:
        raise BundleError(f"{where}: expected one port of role {role}, found {len(found)}")
    port = found[0]
    if port.name != role:
        raise BundleError(f"{where}: the port of role {role} is named {port.name!r}, expected {role!r}")
    if port.dtype != dtype:
        raise BundleError(f"{where}: port {role!r} has dtype {port.dtype}, expected {dtype}")
    if port.axes not in (axes, or_axes):
        raise BundleError(f"{where}: port {role!r} has axes {show_axes(port.axes)}, expected {show_axes(axes)}")


def _named_after(role: str, ports: Iterable[Port], where: str) -> None:
    for port in ports:
        if not port.name.startswith(f"{role}."):
            raise BundleError(f"{where}: port {port.name!r} has role {role}, so its name must start with '{role}.'")


def _same(left: Iterable[Port], right: Iterable[Port], where: str) -> None:
    one, other = {port.name: port for port in left}, {port.name: port for port in right}
    if one.keys() != other.keys():
        raise BundleError(f"{where} differ: {_list(one)} against {_list(other)}")
    for name, port in one.items():
        if port != other[name]:
            raise BundleError(f"{where} differ: {name!r} is {_describe(port)} against {_describe(other[name])}")


def _describe(port: Port) -> str:
    return f"{port.dtype} {show_axes(port.axes)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"

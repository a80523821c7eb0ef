"""Writes and reads a bundle: graphs, tokenizer, model card and the bundle.json that vouches for them.

It does not know how graphs were made, nor who will serve them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf import json_format

from regard.atomic import replacing_folder
from regard.contract.bundle import FORMAT_VERSION, MANIFEST, load_profiles, read_manifest
from regard.contract.errors import BundleError as ContractError
from regard.contract.model_ports import GraphPorts
from regard.contract.names import key_of_path
from regard.contract.ports import Port
from regard.export.bundle.card import render_card
from regard.export.errors import BundleError, as_export_error
from regard.v1 import bundle_pb2

if TYPE_CHECKING:
    from onnx import ModelProto

CARD = "README.md"
TOKENIZER = "tokenizer.json"
LARGEST_BYTES = 25 * 1000 * 1000


class Bundle(NamedTuple):
    """A bundle in memory: its manifest, and the bytes of every file but manifest and card."""

    manifest: bundle_pb2.Bundle
    files: Mapping[str, bytes]


def check_target(target: Path, *, replace: bool) -> None:
    """Check, before the work, that a bundle may be written there. Raises BundleError."""
    with as_export_error():
        key_of_path(target)
    if target.exists() and not replace:
        raise BundleError(f"{target} exists already; --replace writes it anew.")


def describe_graph(file: str, model: ModelProto, ports: GraphPorts) -> bundle_pb2.Graph:
    """Return what a manifest says of a graph."""
    return bundle_pb2.Graph(
        file=file,
        opset=next(opset.version for opset in model.opset_import if opset.domain == ""),
        ir_version=model.ir_version,
        inputs=[_describe_port(port) for port in ports.inputs],
        outputs=[_describe_port(port) for port in ports.outputs],
    )


def _describe_port(port: Port) -> bundle_pb2.Port:
    return bundle_pb2.Port(
        name=port.name,
        role=bundle_pb2.PortRole.Value(f"PORT_ROLE_{port.role.upper()}"),
        dtype=port.dtype,
        axes=[str(axis) for axis in port.axes],
    )


def write_bundle(
    target: Path, bundle: Bundle, *, replace: bool = False, largest: int = LARGEST_BYTES, check: bool = True
) -> bundle_pb2.Bundle:
    """Write a bundle, which appears whole or not at all, and return its manifest with digests.

    name and version of the manifest are set from the path. Raises BundleError if the target exists (unless replace),
    the bundle would have more than `largest` bytes or, unless check is False, the contract's reader refuses it.
    """
    check_target(target, replace=replace)
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(bundle.manifest)
    manifest.format_version = FORMAT_VERSION
    manifest.name, manifest.version = key_of_path(target)
    files = {**bundle.files, CARD: render_card(manifest).encode()}
    del manifest.files[:]
    manifest.files.extend(
        bundle_pb2.BundleFile(path=path, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in sorted(files.items())
    )
    total = sum(map(len, files.values()))
    if total > largest:
        raise BundleError(f"The bundle would have {total / 1e6:.1f} MB, but at most {largest // 10**6} are allowed.")
    files[MANIFEST] = canonical_json(manifest).encode()

    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(target) as partial:
        for path, data in files.items():
            (partial / path).write_bytes(data)
        if check:
            _check_readable(partial, target)
    return manifest


def _check_readable(partial: Path, target: Path) -> None:
    """Read what was written as the server will. Raises BundleError, which speaks of the target."""
    try:
        load_profiles(partial)
    except ContractError as error:
        raise BundleError(str(error).replace(str(partial), str(target))) from error


def canonical_json(manifest: bundle_pb2.Bundle) -> str:
    """Return the manifest as protobuf JSON with sorted keys: equal manifests give equal bytes."""
    text = json_format.MessageToJson(
        manifest, sort_keys=True, indent=2, ensure_ascii=False, always_print_fields_with_no_presence=True
    )
    return text + "\n"


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle and check that its files, each as its digest says, and no others are there.

    Raises BundleError that names the file and what is wrong with it.
    """
    with as_export_error():
        manifest, _ = read_manifest(folder)
    return Bundle(
        manifest, {entry.path: (folder / entry.path).read_bytes() for entry in manifest.files if entry.path != CARD}
    )

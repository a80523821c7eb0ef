"""Writes and reads a bundle: graphs, tokenizer, model card and the bundle.json that vouches for them.

It does not know how graphs were made, nor who will serve them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from google.protobuf import json_format
from onnx import ModelProto

from regard.atomic import replacing_folder
from regard.export.bundle.card import render_card
from regard.export.errors import BundleError
from regard.export.ports import GraphPorts, Port
from regard.v1 import bundle_pb2

FORMAT_VERSION = 1
MANIFEST = "bundle.json"
CARD = "README.md"
TOKENIZER = "tokenizer.json"
LARGEST_BYTES = 25 * 1000 * 1000

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LONGEST_NAME = 64


class Bundle(NamedTuple):
    """A bundle in memory: its manifest, and the bytes of every file but manifest and card."""

    manifest: bundle_pb2.Bundle
    files: Mapping[str, bytes]


def name_and_version(target: Path) -> tuple[str, str]:
    """Return what NAME/VERSION at the end of a path says. Raises BundleError if it says nothing usable."""
    name, version = target.absolute().parts[-2:]
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME or not _VERSION.fullmatch(version):
        raise BundleError(
            f"{target} does not end in NAME/VERSION: a name of at most {LONGEST_NAME} small letters, digits and single "
            f"hyphens, and a version that is a positive integer of at most 9 digits, for example models/en-es-rnn/1."
        )
    return name, version


def check_target(target: Path, *, replace: bool) -> None:
    """Check, before the work, that a bundle may be written there. Raises BundleError."""
    name_and_version(target)
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
        role=bundle_pb2.PortRole.Value(f"PORT_ROLE_{port.role.name}"),
        dtype=port.dtype,
        axes=[str(axis) for axis in port.axes],
    )


def write_bundle(
    target: Path, bundle: Bundle, *, replace: bool = False, largest: int = LARGEST_BYTES
) -> bundle_pb2.Bundle:
    """Write a bundle, which appears whole or not at all, and return its manifest with digests.

    name and version of the manifest are set from the path. Raises BundleError if the target exists (unless replace)
    or the bundle would have more than `largest` bytes.
    """
    check_target(target, replace=replace)
    manifest = bundle_pb2.Bundle()
    manifest.CopyFrom(bundle.manifest)
    manifest.format_version = FORMAT_VERSION
    manifest.name, manifest.version = name_and_version(target)
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
    return manifest


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
    path = folder / MANIFEST
    try:
        manifest = json_format.Parse(path.read_text(encoding="utf-8"), bundle_pb2.Bundle())
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}.") from error
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise BundleError(f"{path} is not a manifest: {error}") from error
    if manifest.format_version != FORMAT_VERSION:
        raise BundleError(
            f"{path} has format version {manifest.format_version}, but this program reads version {FORMAT_VERSION}."
        )
    files: dict[str, bytes] = {}
    for entry in manifest.files:
        if not _FILE_NAME.fullmatch(entry.path) or entry.path == MANIFEST:
            raise BundleError(f"{path} names {entry.path!r}, but files of a bundle lie beside its manifest.")
        if (folder / entry.path).resolve().parent != folder.resolve():
            raise BundleError(f"{folder / entry.path} is a link that leaves the bundle.")
        try:
            data = (folder / entry.path).read_bytes()
        except OSError as error:
            raise BundleError(f"{folder / entry.path} cannot be read: {error.strerror}.") from error
        if len(data) != entry.size_bytes:
            raise BundleError(
                f"{folder / entry.path} has {len(data)} bytes, but the manifest says {entry.size_bytes}: "
                f"it was cut off or replaced."
            )
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise BundleError(
                f"{folder / entry.path} is not the file that the manifest vouches for: its SHA-256 differs."
            )
        if entry.path != CARD:
            files[entry.path] = data
    _check_names(folder, [entry.path for entry in manifest.files])
    return Bundle(manifest, files)


def _check_names(folder: Path, listed: Sequence[str]) -> None:
    if len(set(listed)) < len(listed):
        raise BundleError(f"{folder / MANIFEST} lists a file twice.")
    for path in sorted(folder.iterdir()):
        # A graph could take its weights from such a file, and no digest would cover them.
        if path.name not in listed and path.name != MANIFEST:
            raise BundleError(f"{path} is not among the files that the manifest lists; remove it.")

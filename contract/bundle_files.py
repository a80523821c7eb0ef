"""Checks the files of a bundle against the sizes and digests of its manifest.

It does not know what is in the files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from regard.contract.errors import BundleError
from regard.v1 import bundle_pb2

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_files(directory: Path, files: Iterable[bundle_pb2.BundleFile], *, apart_from: str) -> None:
    """Check that the listed files, and only they, are in the directory, whole and unaltered.

    A file that is not listed is refused, for a graph could take its weights from it and no digest would cover them.

    Args:
        directory: of the bundle.
        files: as the manifest lists them.
        apart_from: name of the manifest itself.

    Raises:
        BundleError: names the file, what was expected and what is there.
    """
    listed: set[str] = set()
    for entry in files:
        if not _FILE_NAME.fullmatch(entry.path) or entry.path == apart_from:
            raise BundleError(f"files holds {entry.path[:80]!r}, expected a plain file name beside {apart_from}")
        if entry.path in listed:
            raise BundleError(f"file {entry.path} is listed twice")
        listed.add(entry.path)
        _check_file(directory, entry)
    for path in sorted(directory.iterdir()):
        if path.name not in listed and path.name != apart_from:
            raise BundleError(f"{path.name!r} is in the directory but not among the files of {apart_from}; remove it")


def _check_file(directory: Path, entry: bundle_pb2.BundleFile) -> None:
    path = directory / entry.path
    if not path.exists():
        raise BundleError(f"file {entry.path} is missing")
    if path.resolve().parent != directory.resolve():
        raise BundleError(f"file {entry.path} is a link that leaves the bundle")
    if not path.is_file():
        raise BundleError(f"file {entry.path} is not a regular file")
    if not _SHA256.fullmatch(entry.sha256):
        raise BundleError(f"file {entry.path} has no sha256 of 64 hexadecimal digits in the manifest")
    size = path.stat().st_size
    if size != entry.size_bytes:
        raise BundleError(f"file {entry.path} has {size} bytes, expected {entry.size_bytes}: it is cut or another file")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != entry.sha256:
        raise BundleError(f"file {entry.path} has sha256 {digest}, expected {entry.sha256}: it was altered")


def need_file(name: str, listed: Collection[str], where: str) -> None:
    """Check that a file that the manifest refers to is one that it vouches for.

    Args:
        where: the field in messages.

    Raises:
        BundleError: it is not named, or not listed.
    """
    if not name:
        raise BundleError(f"{where} is missing")
    if name not in listed:
        raise BundleError(f"{where} is {name[:80]!r}, which is not among the files of the manifest")

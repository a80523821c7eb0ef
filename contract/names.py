"""Names and versions of models: one pattern each, for paths, manifests and requests alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from regard.contract.errors import BundleError

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MODEL_VERSION = re.compile(r"[1-9][0-9]{0,8}")


class ModelKey(NamedTuple):
    """Which model version a request is for."""

    name: str
    version: str


def check_key(name: str, version: str) -> ModelKey:
    """Return the key of a name and a version.

    Raises:
        BundleError: no model can have that name or version.
    """
    if not MODEL_NAME.fullmatch(name):
        raise BundleError(f"name is {name[:80]!r}, expected {MODEL_NAME.pattern}")
    if not MODEL_VERSION.fullmatch(version):
        raise BundleError(f"version is {version[:80]!r}, expected a positive integer without leading zeros")
    return ModelKey(name, version)


def key_of_path(directory: Path) -> ModelKey:
    """Return what NAME/VERSION at the end of a path says.

    Raises:
        BundleError: it says nothing that a model can be called.
    """
    try:
        return check_key(*directory.absolute().parts[-2:])
    except (BundleError, TypeError) as error:
        raise BundleError(
            f"{directory} does not end in NAME/VERSION: a name of at most 64 small letters, digits, dots, hyphens and "
            "underscores that begins with a letter or digit, and a version that is a positive integer of at most 9 "
            "digits, for example models/en-es-rnn/1"
        ) from error

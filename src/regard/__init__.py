"""Attention models, served with their attention kept: `from regard import Client`.

The folders beside `src` are the sub-packages; each is linked in here under its own name, so that a stranger's `server`
or `client` never meets ours. Importing `regard` loads no sub-package before one of its names is asked for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.client import AsyncClient, AttentionQuery, Client, RegardCallError

# ONNX Runtime's wheels send model file names, run counts and facts of the machine to their maker unless told not to.
# Every way to it in this package comes through here first; whoever wants it sets the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
__all__ = ["AsyncClient", "AttentionQuery", "Client", "RegardCallError", "__version__"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("regard.client"), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

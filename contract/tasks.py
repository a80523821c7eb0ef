"""Names what a model is for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from regard.contract.errors import BundleError
from regard.v1 import bundle_pb2

_NUMBERS: Mapping[int, str] = {bundle_pb2.TASK_TRANSLATION: "translation", bundle_pb2.TASK_CAPTIONING: "captioning"}


class Task(Enum):
    """What a model is for."""

    TRANSLATION = "translation"
    CAPTIONING = "captioning"


def read_task(number: int) -> Task:
    """Return the task that a manifest states.

    Raises:
        BundleError: it states none that the contract knows.
    """
    name = _NUMBERS.get(number)
    if name is None:
        known = ", ".join(f"{number} (TASK_{name.upper()})" for number, name in _NUMBERS.items())
        raise BundleError(f"task is {number}, known are {known}")
    return Task(name)

"""Names what a model is for, and refuses to have it do something else.

It does not know bundles on disk, services or requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from regard.server.errors import BundleError, UnsupportedByModel
from regard.v1 import bundle_pb2

_NUMBERS: Mapping[int, str] = {bundle_pb2.TASK_TRANSLATION: "translation", bundle_pb2.TASK_CAPTIONING: "captioning"}


class Task(Enum):
    """What a model is for."""

    TRANSLATION = "translation"
    CAPTIONING = "captioning"


def read_task(number: int) -> Task:
    """Return the task that a manifest states.

    Raises:
        BundleError: it states none that this server knows.
    """
    name = _NUMBERS.get(number)
    if name is None:
        known = ", ".join(f"{number} (TASK_{name.upper()})" for number, name in _NUMBERS.items())
        raise BundleError(f"task is {number}, this server knows {known}")
    return Task(name)


def need_task(model: str, task: Task, needed: Task) -> None:
    """Refuse to ask a model for what it was not made for.

    Raises:
        UnsupportedByModel: names the model and its task.
    """
    if task is not needed:
        raise UnsupportedByModel("WRONG_TASK", f"model {model} is for {task.value}, not for {needed.value}")

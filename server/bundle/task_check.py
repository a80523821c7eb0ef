"""Refuses to have a model do what it is not for."""

from __future__ import annotations

from regard.contract.tasks import Task
from regard.server.errors import UnsupportedByModel


def need_task(model: str, task: Task, needed: Task) -> None:
    """Refuse to ask a model for what it was not made for.

    Raises:
        UnsupportedByModel: names the model and its task.
    """
    if task is not needed:
        raise UnsupportedByModel("WRONG_TASK", f"model {model} is for {task.value}, not for {needed.value}")

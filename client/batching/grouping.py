"""Puts things into groups of a bounded number and a bounded size, in order.

Does not know what they are, and takes no more of them than the group at hand needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")


def in_groups(
    items: Iterable[_Item], size: Callable[[_Item], int], *, most: int, most_size: int
) -> Iterator[list[_Item]]:
    """Yield groups of at most `most` items and `most_size` in all; an item that is larger has a group of its own."""
    group: list[_Item] = []
    total = 0
    for item in items:
        own = size(item)
        if group and (len(group) == most or total + own > most_size):
            yield group
            group, total = [], 0
        group.append(item)
        total += own
    if group:
        yield group

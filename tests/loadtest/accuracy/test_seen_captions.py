"""When two pictures count as read alike: the same said and looked at, or nearly so where colours were converted."""

import numpy as np
import pytest
from tests.acceptance.picture_server import Seen

from regard.v1.captioning_pb2 import Image

TEXT = "a man in a red shirt stands before a yellow tent"


def seen(text: str = TEXT, *, cell: int = 0, weight: float = 1.0, code: str = "OK") -> Seen:
    """A caption whose words put `weight` on one cell and the rest on the last."""
    maps = np.zeros((len(text.split()), 2, 2), dtype=np.float32)
    maps.reshape(-1, 4)[:, 3] = 1 - weight
    maps.reshape(-1, 4)[:, cell] += weight
    return Seen(code, "", text, Image(), maps, True, 0.0)


def test_the_same_is_alike_and_near() -> None:
    assert seen().like(seen())
    assert seen().near(seen())


def test_another_last_word_is_near_and_not_alike() -> None:
    other = seen(TEXT.replace("tent", "building"))
    assert other.near(seen())
    assert not other.like(seen())


@pytest.mark.parametrize(("weight", "like", "near"), [(0.95, True, True), (0.85, False, True), (0.8, False, False)])
def test_maps_may_move_a_little_and_no_more(weight: float, like: bool, near: bool) -> None:
    moved = seen(weight=weight)
    assert (moved.like(seen()), moved.near(seen())) == (like, near)


@pytest.mark.parametrize(
    "other",
    [
        seen("a person in a blue shirt is jumping into a blue sky"),
        seen(cell=1),
        seen("a"),
        seen(""),
        seen(code="INTERNAL"),
    ],
)
def test_another_scene_is_neither(other: Seen) -> None:
    assert not other.like(seen())
    assert not other.near(seen())

"""Makes up sequences to copy, reverse or add up, which a capable model learns in seconds."""

import random
from collections.abc import Sequence
from typing import Literal

from regard.training.data.translation_data import Corpus, Pair

WORDS = ("ala", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay")
# Few enough for each pair of neighbours to be seen often.
SUMMANDS = 4

Task = Literal["copy", "reverse", "sums", "pick"]
TASKS: tuple[Task, ...] = ("copy", "reverse", "sums", "pick")
_ORIGINS = {
    "copy": "words copied",
    "reverse": "words backwards",
    "sums": "sums of neighbours",
    "pick": "words at the places that sums of neighbours name",
}


def answer(task: Task, words: Sequence[str]) -> list[str]:
    """Return the target of a source.

    "sums" takes each of the first SUMMANDS words for its place among them and writes its sum with its left neighbour,
    modulo SUMMANDS; the first word stays. Like XOR, of which it is the version for four values, a sum says nothing of
    either summand alone, so that no sum of what one position says and what the other says can be right everywhere.
    "pick" writes for each of these sums the word that stands at the place it names, counted from 0: what has to be
    worked out says where to look. Its sources have SUMMANDS words or more.
    """
    if task == "copy":
        return list(words)
    if task == "reverse":
        return list(reversed(words))
    places = [WORDS.index(word) for word in words]
    sums = [(place + left) % SUMMANDS for place, left in zip(places, [0, *places], strict=False)]
    return [WORDS[total] if task == "sums" else words[total] for total in sums]


def make_toy(task: Task, *, pairs: int = 1000, longest: int = 6, seed: int = 1) -> Corpus:
    """Return random sequences of up to `longest` words with what the task makes of them; all lengths as often.

    Raises ValueError for an unknown task.
    """
    if task not in TASKS:
        raise ValueError(f"task is {task!r}, but it is one of {', '.join(TASKS)}.")
    known = WORDS if task in ("copy", "reverse") else WORDS[:SUMMANDS]
    shortest = SUMMANDS if task == "pick" else 1
    rng = random.Random(seed)  # noqa: S311  made-up words, not secrets

    def draw(count: int) -> list[Pair]:
        made: list[Pair] = []
        for _ in range(count):
            words = rng.choices(known, k=rng.randint(shortest, longest))
            made.append(Pair(" ".join(words), " ".join(answer(task, words))))
        return made

    return Corpus(train=draw(pairs), valid=draw(100), test=draw(100), origin=f"made up: {_ORIGINS[task]}")


def read_toy(*, reverse: bool, pairs: int = 1000, longest: int = 6, seed: int = 1) -> Corpus:
    """Return sequences to reverse, or to copy."""
    return make_toy("reverse" if reverse else "copy", pairs=pairs, longest=longest, seed=seed)

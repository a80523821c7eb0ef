"""Makes up sequences to copy or to reverse, which any working model learns in seconds.

It does not know models.
"""

import random

from training.translation_data import Corpus, Pair

WORDS = ("ala", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay")


def read_toy(*, reverse: bool, pairs: int = 1000, longest: int = 6, seed: int = 1) -> Corpus:
    """Return random sequences of words with themselves, or themselves backwards, as targets."""
    rng = random.Random(seed)  # noqa: S311  made-up words, not secrets

    def draw(count: int) -> list[Pair]:
        made: list[Pair] = []
        for _ in range(count):
            words = rng.choices(WORDS, k=rng.randint(1, longest))
            made.append(Pair(" ".join(words), " ".join(reversed(words) if reverse else words)))
        return made

    origin = "made up: words " + ("backwards" if reverse else "copied")
    return Corpus(train=draw(pairs), valid=draw(100), test=draw(100), origin=origin)

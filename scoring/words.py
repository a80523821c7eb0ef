"""Cuts captions into the words that are learnt and compared.

It does not know scores, nor the subwords of any model.
"""

import re

# A word, with its hyphens, or what follows an apostrophe: "dog's" is two, as in the data.
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*|'[^\W_]+")


def words(caption: str) -> list[str]:
    """Return the words of a caption in small letters, without punctuation."""
    return _WORD.findall(caption.lower())

"""Knows the languages that a model writes, and how a request for one of them is told to it.

It does not know texts or tokenizers. A model of several target languages is told by the last token of its source:
instead of the end of sentence it is one that stands for the language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from regard.server.errors import BundleError, InvalidRequest
from regard.v1 import bundle_pb2

_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_MOST_SUBTAGS = 8
_SHOWN = 35


def check_tags(manifest: bundle_pb2.Bundle) -> None:
    """Check the names of the languages of a manifest. A model of no language in particular names none.

    Raises:
        BundleError: names the one that is no tag of BCP-47.
    """
    sides = {"source_languages": manifest.source_languages, "target_languages": manifest.target_languages}
    for name, languages in sides.items():
        for language in languages:
            if not _TAG.fullmatch(language):
                raise BundleError(f"{name} holds {language[:80]!r}, which is no BCP-47 tag")


def read_target_ends(manifest: bundle_pb2.Bundle, *, predictable: int) -> Mapping[str, int]:
    """Return the id that ends a source for each target language, in their order; nothing where there is but one way.

    Args:
        predictable: tokens that a step can predict; no such id is one of them.

    Raises:
        BundleError: an id or a language is missing, or one that cannot be.
    """
    ends = dict(manifest.tokenizer.target_end_ids)
    languages = list(manifest.target_languages)
    if not ends:
        return {}
    if sorted(ends) != sorted(languages):
        raise BundleError(
            f"tokenizer.target_end_ids has {', '.join(sorted(ends))}, "
            f"but target_languages are {', '.join(languages) or 'none'}"
        )
    size = manifest.tokenizer.vocabulary_size
    for language, index in ends.items():
        if not predictable <= index < size:
            raise BundleError(
                f"tokenizer.target_end_ids gives {language} the id {index}, expected {predictable} to {size - 1}: "
                "one that no step predicts"
            )
    if len(set(ends.values())) < len(ends):
        raise BundleError("tokenizer.target_end_ids gives two languages one id")
    return {language: ends[language] for language in languages}


def choose_language(asked: str, offered: Sequence[str], *, field: str, model: str) -> str:
    """Find a language by lookup of RFC 4647: es-MX is answered by a model of es, but pt not by one of pt-BR.

    Args:
        asked: whatever a caller sent.
        offered: tags of the model.
        field: what errors call the request's.
        model: its name for errors.

    Raises:
        InvalidRequest: the model does not write it; names those that it does.
    """
    subtags = asked.lower().split("-")[:_MOST_SUBTAGS]
    by_tag = {language.lower(): language for language in reversed(offered)}
    for count in range(len(subtags), 0, -1):
        found = by_tag.get("-".join(subtags[:count]))
        if found is not None:
            return found
    raise InvalidRequest(
        field,
        f"{asked[:_SHOWN]!r} is not offered; model {model} writes {', '.join(offered) or 'no language in particular'}",
    )

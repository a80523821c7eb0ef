"""Reads the languages of a manifest, and the ids by which a model of several target languages is told which to write.

Such a model is told by the last token of its source: instead of the end of sentence it is one that stands for the
language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from regard.contract.errors import BundleError
from regard.v1 import bundle_pb2

_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


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

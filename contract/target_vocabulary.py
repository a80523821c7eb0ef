"""Reads which tokens a model of several target languages writes each of them with.

It does not know texts, nor how tokens are scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.contract.errors import BundleError
from regard.v1 import bundle_pb2

_BITS = 8


def name_scores(language: str) -> str:
    """Return the name of the step's output over the tokens of a target language: scores.pt_br for pt-BR."""
    return f"scores.{language.lower().replace('-', '_')}"


def pack_tokens(tokens: NDArray[np.int64], predictable: int) -> bytes:
    """Return ids as bits, as a manifest holds them: token 0 is the lowest bit of the first byte."""
    bits = np.zeros(predictable, dtype=np.uint8)
    bits[tokens] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_tokens(packed: bytes) -> NDArray[np.int64]:
    """Return the ids that `pack_tokens` packed, ascending."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")).astype(np.int64)


def read_target_vocabularies(manifest: bundle_pb2.Bundle, *, predictable: int) -> Mapping[str, NDArray[np.int64]]:
    """Return the ids of each target language that has scores of its own, ascending, in the order of the manifest.

    Args:
        predictable: tokens that a step can predict.

    Raises:
        BundleError: a language is none of the target languages or has two; or its tokens are not a bit for each token
            that can be predicted, lack the end of sentence or hold a token that is never generated.
    """
    found: dict[str, NDArray[np.int64]] = {}
    for entry in manifest.target_vocabularies:
        where = f"target_vocabularies: {entry.language[:80]!r}"
        if entry.language not in manifest.target_languages:
            raise BundleError(f"{where} is not among target_languages {', '.join(manifest.target_languages)}")
        if entry.language in found:
            raise BundleError(f"{where} is there twice")
        if len(entry.tokens) != -(-predictable // _BITS):
            raise BundleError(f"{where} has {len(entry.tokens)} bytes, expected a bit for each of {predictable} tokens")
        tokens = unpack_tokens(entry.tokens)
        _check_tokens(tokens.tolist(), manifest.tokenizer, predictable, where)
        found[entry.language] = tokens
    return found


def _check_tokens(tokens: Sequence[int], tokenizer: bundle_pb2.Tokenizer, predictable: int, where: str) -> None:
    if tokens and tokens[-1] >= predictable:
        raise BundleError(f"{where} has token {tokens[-1]}, and only {predictable} can be predicted")
    if tokenizer.end_id not in tokens or len(tokens) < 2:
        raise BundleError(f"{where} lacks the end of sentence, or has nothing else")
    for index in (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.begin_id):
        if index in tokens:
            raise BundleError(f"{where} has token {index}, which is never generated")

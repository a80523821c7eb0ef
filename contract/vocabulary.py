"""Opens tokenizer.json and checks it against what the manifest says of it.

It does not know sentences, spans or models.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

from regard.contract.errors import BundleError
from regard.v1 import bundle_pb2

# The bundle format fixes the special tokens and their ids.
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")


def open_tokenizer(path: Path) -> Tokenizer:
    """Read the file tokenizer.json as `read_tokenizer` does. Raises BundleError if it is not one."""
    return read_tokenizer(path.read_bytes(), path.name)


def read_tokenizer(content: bytes, name: str) -> Tokenizer:
    """Read tokenizer.json so that it treats text as text: it cuts nothing off and knows no special tokens in it.

    Raises:
        BundleError: it is not one.
    """
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:  # The library raises plain Exception, whatever is wrong.
        raise BundleError(f"file {name} is not a tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def check_no_added_tokens(tokenizer: Tokenizer, name: str) -> None:
    """Check that no text can spell a special token. Export writes no other tokenizer.

    Raises:
        BundleError: the tokenizer has added tokens, which it finds in texts where a reader does not turn that off.
    """
    if json.loads(tokenizer.to_str())["added_tokens"]:
        raise BundleError(f"file {name} has added tokens: a text could spell </s> and end itself")


def check_vocabulary(tokenizer: Tokenizer, declared: bundle_pb2.Tokenizer) -> None:
    """Check that the tokenizer has the declared size and special ids and ends sources as the format says.

    Raises:
        BundleError: names what was expected and what is there.
    """
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    if len(ids) != declared.vocabulary_size:
        raise BundleError(
            f"file {declared.file} has {len(ids)} entries, expected vocabulary_size {declared.vocabulary_size}"
        )
    if sorted(ids) != list(range(len(ids))):
        raise BundleError(f"file {declared.file} has ids that are not 0 to {len(ids) - 1}")
    declared_ids = (declared.pad_id, declared.unknown_id, declared.begin_id, declared.end_id)
    for expected, (token, stated) in enumerate(zip(SPECIAL_TOKENS, declared_ids, strict=True)):
        if stated != expected:
            raise BundleError(f"tokenizer: the id of {token} is {stated}, expected {expected}")
        if tokenizer.token_to_id(token) != expected:
            raise BundleError(
                f"file {declared.file} has id {tokenizer.token_to_id(token)} for {token}, expected {expected}"
            )
    if tokenizer.encode("a").ids[-1:] != [declared.end_id]:
        raise BundleError(f"file {declared.file} does not end a text with {SPECIAL_TOKENS[-1]}")

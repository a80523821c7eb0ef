"""Opens tokenizer.json and checks it against what the manifest says of it.

It does not know sentences, spans or models.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from regard.server.errors import BundleError
from regard.v1 import bundle_pb2

# The bundle format fixes the special tokens and their ids.
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")


def open_tokenizer(path: Path) -> Tokenizer:
    """Read tokenizer.json so that it treats text as text: it cuts nothing off and knows no special tokens in it.

    Raises:
        BundleError: it is not one.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises plain Exception, whatever is wrong.
        raise BundleError(f"file {path.name} is not a tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def check_vocabulary(path: Path, declared: bundle_pb2.Tokenizer) -> None:
    """Check that the tokenizer has the declared size and special ids and ends sources as the format says.

    Raises:
        BundleError: names what was expected and what is there.
    """
    tokenizer = open_tokenizer(path)
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    if len(ids) != declared.vocabulary_size:
        raise BundleError(
            f"file {path.name} has {len(ids)} entries, expected vocabulary_size {declared.vocabulary_size}"
        )
    if sorted(ids) != list(range(len(ids))):
        raise BundleError(f"file {path.name} has ids that are not 0 to {len(ids) - 1}")
    declared_ids = (declared.pad_id, declared.unknown_id, declared.begin_id, declared.end_id)
    for expected, (token, stated) in enumerate(zip(SPECIAL_TOKENS, declared_ids, strict=True)):
        if stated != expected:
            raise BundleError(f"tokenizer: the id of {token} is {stated}, expected {expected}")
        if tokenizer.token_to_id(token) != expected:
            raise BundleError(
                f"file {path.name} has id {tokenizer.token_to_id(token)} for {token}, expected {expected}"
            )
    if tokenizer.encode("a").ids[-1:] != [declared.end_id]:
        raise BundleError(f"file {path.name} does not end a text with {SPECIAL_TOKENS[-1]}")

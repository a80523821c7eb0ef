"""Cuts text into subwords and joins them again, by one tokenizer.json that needs only the `tokenizers` package.

It does not know models, nor which of two languages a text is in: both share one vocabulary.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

PAD, UNKNOWN, BEGIN, END = range(4)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")

# A word with its apostrophes, one digit, or one other character, each with the mark of the space before it: "▁¿" and
# "Cómo" are two pieces, so that a word after an opening mark is the word that it is elsewhere.
_PIECE = "▁?[\\p{L}\\p{M}]+(?:['\u2019][\\p{L}\\p{M}]+)*|▁?\\p{N}|▁?[^▁\\p{L}\\p{M}\\p{N}]|▁"


class Vocabulary:
    """A joint byte-pair vocabulary (Sennrich et al. 2016) with ids 0 <pad>, 1 <unk>, 2 <s>, 3 </s>.

    Text is brought to Unicode NFC and its runs of white space become single spaces; nothing else is changed. Offsets
    count characters of the text as it was given. Special tokens written in a text are ordinary characters. A
    character that training did not see, or a run of such letters, becomes <unk>.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        for index, token in enumerate(SPECIAL):
            found = tokenizer.token_to_id(token)
            if found != index:
                raise ValueError(f"The tokenizer gives {token} the id {found}, but it must be {index}.")

    @classmethod
    def train(
        cls,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        size: int,
        alphabet: int = 100,
        lower: bool = False,
        languages: Sequence[str] = (),
    ) -> tuple[Self, int]:
        """Learn at most `size` entries from both sides, of which the `alphabet` most frequent characters are kept.

        lower takes capitals for small letters; languages get an entry each.
        Returns the vocabulary and how many entries the targets use: these come first, the most frequent ones leading.
        """
        tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[UNKNOWN], fuse_unk=True))
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                *[normalizers.Lowercase()] * lower,
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Strip(),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace("▁", "always", split=False),
                pre_tokenizers.Split(Regex(_PIECE), "isolated"),
            ]
        )
        tokenizer.decoder = decoders.Metaspace("▁", "always", split=False)
        trainer = trainers.BpeTrainer(
            vocab_size=size - len(languages),
            min_frequency=2,
            special_tokens=list(SPECIAL),
            limit_alphabet=alphabet,
            show_progress=False,
        )
        tokenizer.train_from_iterator([*sources, *targets], trainer)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {SPECIAL[END]}", special_tokens=[(SPECIAL[END], END)]
        )
        settings = json.loads(tokenizer.to_str())
        # An "added token" would be cut out of any text that spells it: "</s>" in an input would end the sentence.
        settings["added_tokens"] = []
        used = Counter(index for encoding in tokenizer.encode_batch(list(targets)) for index in encoding.ids)
        entries: dict[str, int] = settings["model"]["vocab"]
        ordinary = sorted(set(entries) - set(SPECIAL), key=lambda token: (-used[entries[token]], entries[token]))
        # No two pieces can be joined to these, so that no text becomes one.
        order = [*SPECIAL, *ordinary, *map(_language_entry, languages)]
        settings["model"]["vocab"] = {token: index for index, token in enumerate(order)}
        output = len(SPECIAL) + sum(used[entries[token]] > 0 for token in ordinary)
        return cls(Tokenizer.from_str(json.dumps(settings))), output

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a tokenizer.json; raise FileNotFoundError where there is none, ValueError where it is something else."""
        settings = path.read_text(encoding="utf-8")
        try:
            tokenizer = Tokenizer.from_str(settings)
        except Exception as error:  # the package raises plain Exception
            raise ValueError(f"{path} is not a tokenizer.json: {error}") from error
        return cls(tokenizer)

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        path.write_text(self.tokenizer.to_str(pretty=True), encoding="utf-8")

    @property
    def size(self) -> int:
        """Number of entries, the special ones among them."""
        return self.tokenizer.get_vocab_size()

    @property
    def digest(self) -> str:
        """SHA-256 of what `save` writes, in hexadecimal."""
        return hashlib.sha256(self.tokenizer.to_str(pretty=True).encode()).hexdigest()

    def end(self, language: str) -> int:
        """Return the id that ends a source to be translated into a language; </s> for "", where there is only one.

        Raises ValueError for a language that the vocabulary does not know.
        """
        if not language:
            return END
        found = self.tokenizer.token_to_id(_language_entry(language))
        if found is None:
            raise ValueError(f"The vocabulary has no entry for the target language {language}.")
        return found

    def dropping(self, probability: float) -> "Vocabulary":
        """Return a vocabulary that leaves out merges at random (BPE-dropout, Provilkov et al. 2020).

        The same text becomes other subwords every time. Nothing seeds it.
        """
        settings = json.loads(self.tokenizer.to_str())
        settings["model"]["dropout"] = probability
        return Vocabulary(Tokenizer.from_str(json.dumps(settings)))

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids that end in </s>."""
        return self.tokenizer.encode(text).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn each text into ids that end in </s>."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]

    def encode_with_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Turn a text into ids that end in </s> and, for each, the characters [start, end) of the text that it covers.

        </s> covers the empty span at the end of the text.
        """
        encoding = self.tokenizer.encode(text)
        return encoding.ids, [*encoding.offsets[:-1], (len(text), len(text))]

    def decode(self, ids: Iterable[int]) -> str:
        """Join ids to a text, leaving out <pad>, <s> and </s>."""
        visible = [index for index in ids if index not in (PAD, BEGIN, END)]
        return self.tokenizer.decode(visible, skip_special_tokens=False)


def _language_entry(language: str) -> str:
    return f"<2{language}>"

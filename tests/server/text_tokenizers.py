"""Tokenizers as translation models have them, and a bundle that has one; it knows no test."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bundles import NULL
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.contract.bundle import LoadedBundle, load_bundle

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
SENTENCES = [
    "We packed the tent this morning.",
    "Then we drove to the lake and swam.",
    "Don't you know that it's over?",
    "The garçon a mangé près du château, à côté de l'été.",
    "¿Cómo están ustedes, señor? ¡Muy bien!",
    'Sentence number 1234567890 says: (no) "yes" - a/b.',
]


def train(path: Path) -> Path:
    """Subwords as translation models have them: NFC, marks of the space before a word, <unk> for what is not known."""
    tokenizer: Any = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace("▁", "always", split=False),
            pre_tokenizers.Split(
                Regex(r"▁?[\p{L}\p{M}]+(?:['\u2019][\p{L}\p{M}]+)*|▁?\p{N}|▁?[^▁\p{L}\p{M}\p{N}]|▁"), "isolated"
            ),
        ]
    )
    tokenizer.decoder = decoders.Metaspace("▁", "always", split=False)
    tokenizer.train_from_iterator(
        SENTENCES * 3, trainers.BpeTrainer(vocab_size=200, special_tokens=SPECIAL, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 3)])
    settings = json.loads(tokenizer.to_str())
    settings["added_tokens"] = []
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def spell_bytes(path: Path) -> Path:
    """Letters, bytes for all else, and special tokens that are added tokens, as in many vocabularies of others."""
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, "▁", *"abcdefghijklmnopqrstuvwxyz."])}
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    tokenizer: Any = Tokenizer(
        models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 3)])
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=32)
    tokenizer.save(str(path))
    return path


def bundle_with(tokenizer: Path, *, predictable: int | None = None, **changes: Any) -> LoadedBundle:
    size = Tokenizer.from_file(str(tokenizer)).get_vocab_size()
    bundle = load_bundle(NULL)
    return replace(
        bundle,
        tokenizer_path=tokenizer,
        ports=replace(bundle.ports, vocabulary=size, predictable=predictable or size),
        **{"max_source_tokens": 64, "max_target_tokens": 64, **changes},
    )

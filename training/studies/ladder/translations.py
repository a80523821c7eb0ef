"""Translates with a rung and caches the translations beside it, so that no sentence is translated twice."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from regard.atomic import write_text
from regard.training.data.translation_data import References
from regard.training.decoding.evaluate import translate
from regard.training.decoding.search import SearchConfig
from regard.training.learning.checkpoint import Checkpoint

# Given how many of how many are done.
Tell: TypeAlias = Callable[[int, int], None]

_ROWS = 256  # hypotheses side by side, as the search has them


class Translations:
    """A rung's translations: those that the file holds of the same weights and search, and those made here."""

    def __init__(self, file: Path, found: Checkpoint, digest: str, config: SearchConfig) -> None:
        self._file = file
        self._found = found
        self._config = config
        self._made_by: dict[str, Any] = {"weights": digest, "search": asdict(config)}
        self._known: dict[str, str] = self._read()

    def of(self, sources: Sequence[str], tell: Tell) -> list[str]:
        """Return the translation of every source; tell is called as they are made."""
        missing = sorted(
            {source for source in sources if source not in self._known}, key=lambda text: (len(text), text)
        )
        size = max(_ROWS // self._config.beam_size, 1)
        for start in range(0, len(missing), size):
            part = missing[start : start + size]
            texts = [References(source, ()) for source in part]
            made = translate(self._found.model, self._found.vocabulary, texts, self._config)
            self._known.update(zip(part, made, strict=True))
            tell(start + len(part), len(missing))
        if missing:
            self._write()
        return [self._known[source] for source in sources]

    def _read(self) -> dict[str, str]:
        try:
            held = json.loads(self._file.read_text(encoding="utf-8"))
            return dict(held["translations"]) if held["made_by"] == self._made_by else {}
        except (OSError, ValueError, TypeError, KeyError):
            # It only saves time: what cannot be read is made again.
            return {}

    def _write(self) -> None:
        held = {"made_by": self._made_by, "translations": self._known}
        write_text(self._file, json.dumps(held, indent=0, ensure_ascii=False))


def digest_of(folder: Path) -> str:
    """Return the SHA-256 of a checkpoint's weights."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()

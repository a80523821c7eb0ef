"""Where the bundles lie that tests read and the repository holds."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NULL_MODELS = ROOT / "loadtest" / "bundles"
NULL = NULL_MODELS / "null" / "1"

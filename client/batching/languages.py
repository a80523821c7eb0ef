"""Names languages for people.

Knows a few of the many; a tag that it does not know is its own name.
"""

_NAMES = {
    "ar": "Arabic",
    "ca": "Catalan",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}


def direction(sources: tuple[str, ...], targets: tuple[str, ...]) -> str:
    """Return `English → Spanish` for the BCP-47 tags of a model; an empty string if it has none."""
    if not (sources and targets):
        return ""
    return f"{', '.join(map(_name, sources))} → {', '.join(map(_name, targets))}"


def _name(tag: str) -> str:
    return _NAMES.get(tag.lower(), tag)

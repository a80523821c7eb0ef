"""Finds the target language of a model that a request asks for."""

from __future__ import annotations

from collections.abc import Sequence

from regard.server.errors import InvalidRequest

_MOST_SUBTAGS = 8
_SHOWN = 35


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

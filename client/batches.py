"""Translates texts so that the fault of one stays its own, in as few calls as the server takes.

Does not know where the texts come from or what becomes of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from client.errors import InvalidRequest, MessageTooLarge
from client.replies import expect_results
from client.requests import TranslateOptions, translate_request
from regard.v1 import decoding_pb2, translation_pb2

SendTranslate = Callable[[translation_pb2.TranslateRequest], translation_pb2.TranslateResponse]

_INVALID_ARGUMENT = 3  # google.rpc.Code


def translate_each(
    send: SendTranslate, texts: Sequence[str], **options: Unpack[TranslateOptions]
) -> list[translation_pb2.TranslateResponse]:
    """Return a reply with exactly one result for each text, in order; a text at fault has its error in there.

    Raises:
        RegardCallError: the fault is not that of a text.
    """
    if not texts:
        return []
    request = translate_request(texts, **options)
    try:
        reply = send(request)
    except (InvalidRequest, MessageTooLarge) as error:
        if not _is_of_texts(error):
            raise
        if len(texts) > 1:
            # Too much for one call, or a fault that only a call of its own can show.
            half = len(texts) // 2
            return [*translate_each(send, texts[:half], **options), *translate_each(send, texts[half:], **options)]
        return [failure("; ".join(description for _, description in error.violations) or str(error))]
    expect_results(len(reply.results), len(texts))
    return [translation_pb2.TranslateResponse(model=reply.model, results=[result]) for result in reply.results]


def failure(message: str) -> translation_pb2.TranslateResponse:
    """Return a reply with one result, which says what is wrong with its text."""
    error = decoding_pb2.ItemError(code=_INVALID_ARGUMENT, message=message, field="texts[0]")
    return translation_pb2.TranslateResponse(results=[translation_pb2.TranslationResult(error=error)])


def _is_of_texts(error: InvalidRequest | MessageTooLarge) -> bool:
    """Return whether the texts are at fault, each or together, and nothing else in the request."""
    if isinstance(error, MessageTooLarge):
        return True
    fields = [violation.field for violation in error.violations]
    return bool(fields) and all(field == "texts" or field.startswith("texts[") for field in fields)

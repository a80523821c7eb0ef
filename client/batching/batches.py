"""Sends many texts or pictures so that the fault of one stays its own, in as few calls as the server takes.

Does not know how a call travels: it gives a request, and is given the reply or the error. Does not know where the items
come from or what becomes of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, Unpack, final

from google.protobuf.message import Message

from regard.client.batching.grouping import in_groups
from regard.client.batching.image_files import ImageSource, read_image
from regard.client.errors import InvalidRequest, MessageTooLarge, RegardCallError
from regard.client.replies import expect_results
from regard.client.requests import CaptionOptions, TranslateOptions, caption_request, translate_request
from regard.v1 import captioning_pb2, decoding_pb2, translation_pb2

_Item = TypeVar("_Item")
_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

Calls = Generator[_Request, _Reply, list[_Reply]]
"""Yields requests, is sent the reply to each (or thrown the error), and returns one reply for each item."""

CaptionCalls = Calls[captioning_pb2.CaptionRequest, captioning_pb2.CaptionResponse]
SendTranslate = Callable[[translation_pb2.TranslateRequest], translation_pb2.TranslateResponse]
SendCaption = Callable[[captioning_pb2.CaptionRequest], captioning_pb2.CaptionResponse]

# A server reads pictures of a call side by side, but the whole call has to arrive first.
MAX_CALL_IMAGES = 16
MAX_CALL_BYTES = 8 * 1024 * 1024

_INVALID_ARGUMENT = 3  # google.rpc.Code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind(Generic[_Item, _Request, _Reply]):
    """What differs between calls.

    Attributes:
        field: name of the items in the request.
        request: makes the request for some items.
        apart: makes one reply for each result of a reply.
        failure: makes a reply with one result, which failed.
    """

    field: str
    request: Callable[[Sequence[_Item]], _Request]
    apart: Callable[[_Reply], list[_Reply]]
    failure: Callable[[str], _Reply]


@final
class Done(Generic[_Reply]):
    """The end of calls.

    Attributes:
        replies: one for each item.
    """

    def __init__(self, replies: list[_Reply]) -> None:
        self.replies = replies


def translate_each(
    send: SendTranslate, texts: Sequence[str], **options: Unpack[TranslateOptions]
) -> list[translation_pb2.TranslateResponse]:
    """Return a reply with exactly one result for each text, in order; a text at fault has its error in there.

    Raises:
        RegardCallError: the fault is not that of a text.
    """
    kind: _Kind[str, translation_pb2.TranslateRequest, translation_pb2.TranslateResponse] = _Kind(
        field="texts",
        request=lambda texts: translate_request(texts, **options),
        apart=_translations_apart,
        failure=failure,
    )
    return run(_calls(texts, kind), send)


def caption_each(
    send: SendCaption, images: Iterable[bytes], **options: Unpack[CaptionOptions]
) -> list[captioning_pb2.CaptionResponse]:
    """Return a reply with exactly one result for each picture, in order; a picture at fault has its error in there.

    Raises:
        RegardCallError: the fault is not that of a picture.
    """
    return run(caption_calls(images, **options), send)


def caption_calls(images: Iterable[bytes], **options: Unpack[CaptionOptions]) -> CaptionCalls:
    """Yield the requests of `caption_each`, and return what it returns."""
    kind: _Kind[bytes, captioning_pb2.CaptionRequest, captioning_pb2.CaptionResponse] = _Kind(
        field="images",
        request=lambda images: caption_request(images, **options),
        apart=_captions_apart,
        failure=caption_failure,
    )
    kind.request(())  # tells wrong options even where there is no picture
    replies: list[captioning_pb2.CaptionResponse] = []
    for group in in_groups(images, len, most=MAX_CALL_IMAGES, most_size=MAX_CALL_BYTES):
        replies += yield from _calls(group, kind)
    return replies


def calls_for(images: Sequence[ImageSource], **options: Unpack[CaptionOptions]) -> CaptionCalls:
    """Yield the requests for pictures, which are read when it is their turn; a single one fails as a call.

    Raises:
        OSError: a file cannot be read.
    """
    if len(images) != 1:
        return (yield from caption_calls(map(read_image, images), **options))
    reply = yield caption_request([read_image(images[0])], **options)
    expect_results(len(reply.results), 1)
    return [reply]


def run(calls: Calls[_Request, _Reply], send: Callable[[_Request], _Reply]) -> list[_Reply]:
    """Make the calls and return what came of them."""
    now = advance(calls, None)
    while not isinstance(now, Done):
        try:
            answer = send(now)
        except RegardCallError as error:
            answer = error
        now = advance(calls, answer)
    return now.replies


def advance(calls: Calls[_Request, _Reply], answer: _Reply | RegardCallError | None) -> _Request | Done[_Reply]:
    """Tell what the last request came to, None before the first; return the next one, or that there is none."""
    try:
        if answer is None:
            return next(calls)
        return calls.throw(answer) if isinstance(answer, RegardCallError) else calls.send(answer)
    except StopIteration as end:
        return Done(end.value)


def failure(message: str) -> translation_pb2.TranslateResponse:
    """Return a reply with one result, which says what is wrong with its text."""
    return translation_pb2.TranslateResponse(
        results=[translation_pb2.TranslationResult(error=_item_error(message, "texts[0]"))]
    )


def caption_failure(message: str) -> captioning_pb2.CaptionResponse:
    """Return a reply with one result, which says what is wrong with its picture."""
    return captioning_pb2.CaptionResponse(
        results=[captioning_pb2.CaptionResult(error=_item_error(message, "images[0]"))]
    )


def _calls(items: Sequence[_Item], kind: _Kind[_Item, _Request, _Reply]) -> Calls[_Request, _Reply]:
    if not items:
        return []
    try:
        reply = yield kind.request(items)
    except (InvalidRequest, MessageTooLarge) as error:
        if not _is_of_items(error, kind.field):
            raise
        if len(items) == 1:
            return [kind.failure("; ".join(description for _, description in error.violations) or str(error))]
    else:
        replies = kind.apart(reply)
        expect_results(len(replies), len(items))
        return replies
    # Too much for one call, or a fault that only a call of its own can show.
    half = len(items) // 2
    first = yield from _calls(items[:half], kind)
    second = yield from _calls(items[half:], kind)
    return [*first, *second]


def _translations_apart(reply: translation_pb2.TranslateResponse) -> list[translation_pb2.TranslateResponse]:
    return [translation_pb2.TranslateResponse(model=reply.model, results=[result]) for result in reply.results]


def _captions_apart(reply: captioning_pb2.CaptionResponse) -> list[captioning_pb2.CaptionResponse]:
    return [captioning_pb2.CaptionResponse(model=reply.model, results=[result]) for result in reply.results]


def _item_error(message: str, field: str) -> decoding_pb2.ItemError:
    return decoding_pb2.ItemError(code=_INVALID_ARGUMENT, message=message, field=field)


def _is_of_items(error: InvalidRequest | MessageTooLarge, name: str) -> bool:
    """Return whether the items are at fault, each or together, and nothing else in the request."""
    if isinstance(error, MessageTooLarge):
        return True
    fields = [violation.field for violation in error.violations]
    return bool(fields) and all(field == name or field.startswith(f"{name}[") for field in fields)

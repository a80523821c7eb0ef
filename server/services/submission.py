"""Bridges the event loop and the engine's threads: a call awaits all its items while segments finish one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from regard.contract.names import ModelKey
from regard.server.engine.engine import Ticket
from regard.server.errors import CallCancelled, NotServing, RegardError
from regard.server.request import DecodeRequest, DecodeResult

_RETRY_AFTER = 1.0


class DecodeEngine(Protocol):
    """What a call needs from an engine; see `regard.server.engine.engine.Engine`."""

    def submit(
        self,
        key: ModelKey,
        requests: Sequence[DecodeRequest],
        on_done: Callable[[int, DecodeResult | RegardError], None],
    ) -> Ticket:
        """Take all requests or raise; `on_done` is called once for each, from any thread."""
        ...

    def cancel(self, ticket: Ticket) -> None:
        """Drop the segments that are not finished yet."""
        ...


async def decode(
    engine: DecodeEngine,
    key: ModelKey,
    texts: Sequence[Sequence[DecodeRequest]],
    hold: Callable[[int], None],
) -> list[tuple[DecodeResult, ...] | RegardError]:
    """Decode the segments of several items, which enter the queue all together or not at all.

    If a segment fails, so does its item, and the other segments of the item are cancelled. When this coroutine ends
    early, by an error or by cancellation, none of its segments stays in the engine.

    Args:
        engine: decodes.
        key: the model.
        texts: segments of each text.
        hold: called with the size of each result in bytes as it arrives; an error that it raises fails the item.

    Returns:
        for each text the results of its segments, or the error of the first that failed.

    Raises:
        QueueFull, NotServing: the engine does not take all of them.
    """
    pending = [_Text(engine, len(requests), hold) for requests in texts]
    places = [(text, index) for text in pending for index in range(text.segments)]

    def report(place: int, outcome: DecodeResult | RegardError) -> None:
        text, index = places[place]
        text.report(index, outcome)

    try:
        if places:
            segments = iter(
                engine.submit(key, [request for requests in texts for request in requests], report).segments
            )
            for text in pending:
                text.ticket = Ticket(list(islice(segments, text.segments)))
        return [await text.outcome for text in pending]
    finally:
        for text in pending:
            text.give_up()


class _Text:
    """The segments of one text on their way through the engine."""

    def __init__(self, engine: DecodeEngine, segments: int, hold: Callable[[int], None]) -> None:
        self._engine = engine
        self._hold = hold
        self._loop = asyncio.get_running_loop()
        self._results: dict[int, DecodeResult] = {}
        self.segments = segments
        self.ticket: Ticket | None = None
        self.outcome: asyncio.Future[tuple[DecodeResult, ...] | RegardError] = self._loop.create_future()
        if not segments:
            self.outcome.set_result(())

    def report(self, index: int, outcome: DecodeResult | RegardError) -> None:
        """Take the outcome of a segment; called from the engine's threads."""
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(self._settle, index, outcome)

    def give_up(self) -> None:
        """Cancel the segments that are still in the engine."""
        if not self.outcome.done():
            self.outcome.cancel()
        if self.ticket is not None and len(self._results) < self.segments:
            self._engine.cancel(self.ticket)
        self.ticket = None

    def _settle(self, index: int, outcome: DecodeResult | RegardError) -> None:
        if self.outcome.done():
            return
        if isinstance(outcome, DecodeResult):
            try:
                self._hold(_size(outcome))
            except RegardError as error:
                self._fail(error)
                return
            self._results[index] = outcome
            if len(self._results) == self.segments:
                self.outcome.set_result(tuple(self._results[index] for index in range(self.segments)))
        elif isinstance(outcome, CallCancelled):
            # Nobody cancelled this text, or its outcome would be done: the engine is stopping.
            self._fail(NotServing("the server is stopping", _RETRY_AFTER))
        else:
            self._fail(outcome)

    def _fail(self, error: RegardError) -> None:
        self.outcome.set_result(error)
        self.give_up()


def _size(result: DecodeResult) -> int:
    """Bytes of the arrays of a result, which make up nearly all of it."""
    encoder = 0 if result.encoder_attention is None else result.encoder_attention.nbytes
    return encoder + sum(
        hypothesis.tokens.nbytes
        + hypothesis.log_probabilities.nbytes
        + hypothesis.alignment.nbytes
        + (0 if hypothesis.attention is None else hypothesis.attention.nbytes)
        for hypothesis in result.hypotheses
    )

"""Decodes the items of a call, texts or pictures alike, so that each gets its own answer or its own error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from regard.contract.bundle import LoadedBundle
from regard.contract.names import ModelKey
from regard.contract.tasks import Task
from regard.server.bundle.registry import Registry
from regard.server.bundle.task_check import need_task
from regard.server.errors import CallerError, EngineFault, RegardError
from regard.server.metrics import Metrics
from regard.server.request import DecodeRequest, DecodeResult
from regard.server.services.call import Call

Item = TypeVar("Item")
Decode = Callable[
    [ModelKey, Sequence[Sequence[DecodeRequest]], Callable[[int], None]],
    Awaitable[Sequence[tuple[DecodeResult, ...] | RegardError]],
]

# Writing a reply with this many tokens or cells of attention takes about as long as handing it to a thread.
_SMALL_TOKENS = 512
_SMALL_CELLS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Generic[Item]):
    """One item of a call, ready to be decoded.

    Attributes:
        item: what its reply is written from, besides the results.
        requests: for the engine.
        sources: number of its sentences, including those that need no model; 1 for a picture.
        source_tokens: in all sentences; 0 for a picture.
        target_tokens: of a given target.
    """

    item: Item
    requests: Sequence[DecodeRequest]
    sources: int
    source_tokens: int = 0
    target_tokens: int = 0


def find_model(registry: Registry, name: str, version: str, task: Task, call: Call) -> LoadedBundle:
    """Find the model that answers a call, and record it in the call.

    Raises:
        ModelNotFound: there is none.
        UnsupportedByModel: it is for another task.
    """
    bundle = registry.resolve(name, version, task)
    call.model, call.version = bundle.key
    need_task(bundle.key.name, bundle.task, task)
    return bundle


async def decode_items(
    decode: Decode, metrics: Metrics, key: ModelKey, items: Sequence[Prepared[Item] | RegardError], call: Call
) -> list[tuple[Item, tuple[DecodeResult, ...]] | RegardError]:
    """Decode the items that could be prepared; an item that fails, then or before, keeps its error in its place.

    Args:
        decode: decodes the segments of several items; see `regard.server.services.submission`.
        metrics: records the times of segments.
        key: the model.
        items: of the call.
        call: records the numbers of segments and tokens.

    Raises:
        RegardError: an error that concerns the whole call; see `raise_call_errors`.
    """
    requests: list[Sequence[DecodeRequest]] = [() if isinstance(item, RegardError) else item.requests for item in items]
    call.segments = sum(map(len, requests))
    call.source_tokens = sum(item.source_tokens for item in items if isinstance(item, Prepared))
    answers: list[tuple[Item, tuple[DecodeResult, ...]] | RegardError] = []
    for item, outcome in zip(items, await decode(key, requests, call.reservation.add), strict=True):
        if isinstance(item, RegardError):
            answers.append(item)
        elif isinstance(outcome, RegardError):
            answers.append(outcome)
        else:
            answers.append((item.item, outcome))
            _observe(outcome, metrics, call)
    return raise_call_errors(answers)


def raise_call_errors(items: Sequence[Item | RegardError]) -> list[Item | RegardError]:
    """Return the items, or raise an error that concerns the whole call: a server-side one, or that of the only item."""
    for item in items:
        if isinstance(item, RegardError) and (len(items) == 1 or not isinstance(item, CallerError | EngineFault)):
            raise item
    return list(items)


def is_small(call: Call, items: int, *, cells: int) -> bool:
    """Whether a reply, with so many cells of attention, is quicker written here than handed to a thread."""
    return call.source_tokens + call.target_tokens <= _SMALL_TOKENS and cells <= _SMALL_CELLS and items <= _SMALL_TOKENS


def _observe(results: Sequence[DecodeResult], metrics: Metrics, call: Call) -> None:
    for result in results:
        timing = result.timing
        token_seconds = timing.decode_seconds / max(1, timing.steps)
        metrics.segment(
            first_token_seconds=timing.queue_seconds + timing.encode_seconds + token_seconds,
            inter_token_seconds=token_seconds,
        )
        call.target_tokens += sum(len(hypothesis.tokens) for hypothesis in result.hypotheses)

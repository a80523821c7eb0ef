"""Takes the items of a call, texts or pictures, through the engine, each with its own answer or its own error.

It does not know what an item is, protobuf, or scheduling.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from regard.server.bundle.bundle import LoadedBundle
from regard.server.bundle.registry import Registry
from regard.server.bundle.tasks import Task, need_task
from regard.server.errors import CallerError, EngineFault, RegardError
from regard.server.metrics import Metrics
from regard.server.request import DecodeRequest, DecodeResult, ModelKey
from regard.server.services.call import Call

Item = TypeVar("Item")
Decode = Callable[
    [ModelKey, Sequence[Sequence[DecodeRequest]], Callable[[int], None]],
    Awaitable[Sequence[tuple[DecodeResult, ...] | RegardError]],
]

# Writing a reply with this many tokens, or this many cells of attention, takes about as long as handing it to a thread.
_SMALL_TOKENS = 512
_SMALL_CELLS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Generic[Item]):
    """One item of a call, ready for the engine.

    Attributes:
        item: what its reply is written from.
        requests: for the engine.
        sources: its sentences, those included that the model is not asked for; of a picture 1.
        source_tokens: in them; of a picture 0.
        target_tokens: given with it.
    """

    item: Item
    requests: Sequence[DecodeRequest]
    sources: int
    source_tokens: int = 0
    target_tokens: int = 0


def find_model(registry: Registry, name: str, version: str, task: Task, call: Call) -> LoadedBundle:
    """Find the model that answers a call, and note it there.

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
    """Decode what could be prepared; keep the errors of the rest, and of what fails on the way, in their places.

    Args:
        decode: decodes the segments of some items; see `regard.server.services.submission`.
        metrics: gets the times of segments.
        key: the model.
        items: of the call.
        call: is told what it asked of the engine and got.

    Raises:
        RegardError: it concerns the whole call; see `alone`.
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
    return alone(answers)


def alone(items: Sequence[Item | RegardError]) -> list[Item | RegardError]:
    """The items, unless an error concerns the call: one that no item can be blamed for, or that of the only item."""
    for item in items:
        if isinstance(item, RegardError) and (len(items) == 1 or not isinstance(item, CallerError | EngineFault)):
            raise item
    return list(items)


def is_small(call: Call, items: int, *, cells: int) -> bool:
    """Whether writing the reply takes no time worth a thread; `cells` is the attention in it."""
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

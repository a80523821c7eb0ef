"""Models without weights for tests of the engine: what they say follows from the source and from what was said before.

They do not know the engine; they hold the whole source in their memory and the whole prefix in their state, so that a
row that is given the memory or the state of another one says something else. Those with buffers have the prefix in
them, one entry for each step, as a Transformer has its keys and values; what lies beyond is garbage.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.contract.ports import Port
from regard.server.engine.decoder import DecoderFacts, Tensors
from regard.server.request import CallContext, DecodeRequest, Ids, Pixels, SearchOptions

PAD, UNKNOWN, BEGIN, END = range(4)
SUPPRESSED = (PAD, UNKNOWN, BEGIN)

Prefix = tuple[int, ...]
# (source, prefix) to log-probabilities [vocabulary]
Score = Callable[[Prefix, Prefix], NDArray[np.float32]]
# (source, prefix) to weights [layer, head, source]
Attend = Callable[[Prefix, Prefix], NDArray[np.float32]]

_LONGEST = 64

Cache = Literal["none", "swapped", "in place"]
# How a fake may keep its prefix.
CACHES: tuple[Cache, ...] = ("none", "swapped", "in place")
# Enough that numbers written to the next layer, head or place differ from any token.
_LAYERS, _HEADS, _SIZE = 2, 2, 3


def hashed_scores(*, seed: int = 0, vocabulary: int = 12, ending: float = 0.25, impossible: float = 0.0) -> Score:
    """Make log-probabilities that look random but are not.

    Args:
        ending: how fast the end of sentence becomes likely.
        impossible: share of the words that cannot follow.
    """

    @functools.cache
    def score(source: Prefix, prefix: Prefix) -> NDArray[np.float32]:
        random = np.random.default_rng([seed, *source, 1_000_000, *prefix])
        logits = random.normal(scale=2.0, size=vocabulary)
        logits[END] += ending * len(prefix) - 2.0
        logits[4:][random.random(vocabulary - 4) < impossible] = -np.inf
        return (logits - np.log(np.exp(logits).sum())).astype(np.float32)

    return score


def hashed_attention(*, layers: int = 2, heads: int = 2) -> Attend:
    """Make attention that depends on all of source and prefix."""

    @functools.cache
    def attend(source: Prefix, prefix: Prefix) -> NDArray[np.float32]:
        random = np.random.default_rng([7, *source, 2_000_000, *prefix])
        weights = random.random((layers, heads, len(source))) + 0.01
        return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)

    return attend


def constant_scores(probabilities: dict[int, float], *, vocabulary: int) -> Score:
    """Make the same log-probabilities at every step; a token without a probability is impossible."""
    scores = np.full(vocabulary, -np.inf, dtype=np.float32)
    for token, probability in probabilities.items():
        scores[token] = math.log(probability)
    return lambda source, prefix: scores


@dataclass(eq=False)
class FakeDecoder:
    """Meets `regard.server.engine.decoder.Decoder`; counts what it is asked.

    Attributes:
        cache: how it keeps its prefix: in a tensor that it hands on whole, or in buffers, of which there are two that
            take turns, or one.
        before_step: called with the sources of all rows before a step; may raise or wait.
        before_encode: called with the sources of a batch before encoding; may raise.
        steps: sources of the rows of every step so far.
        encoded: sources of every encoded batch so far, with the width it was padded to.
    """

    score: Score
    attend: Attend | None = None
    cache: Cache = "none"
    max_source_tokens: int = 64
    max_target_tokens: int = 40
    before_step: Callable[[list[Prefix]], None] = lambda sources: None
    before_encode: Callable[[list[Prefix]], None] = lambda sources: None
    steps: list[list[Prefix]] = field(default_factory=list[list[Prefix]])
    encoded: list[tuple[int, list[Prefix]]] = field(default_factory=list[tuple[int, list[Prefix]]])
    bound: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        vocabulary = len(self.score((4, END), ()))
        layers, heads = self.attend((4, END), ()).shape[:2] if self.attend is not None else (0, 0)

        def port(name: str, role: Any, dtype: str, *axes: str | int) -> Port:
            return Port(name=name, role=role, dtype=dtype, axes=axes)

        self.facts = DecoderFacts(
            memory=(
                port("memory.source", "memory", "int64", "batch", "source"),
                port("memory.mask", "memory", "bool", "batch", "source", 1),
            ),
            state=(
                port("state.prefix", "state", "int64", "batch", _LONGEST),
                port("state.length", "state", "float32", "batch"),
            )
            if self.cache == "none"
            else (
                # Buffers of one shape, one of another, and one that grows along its last axis.
                port("state.keys_0", "state", "float32", "batch", _HEADS, "target", _SIZE),
                port("state.keys_1", "state", "float32", "batch", _HEADS, "target", _SIZE),
                port("state.tokens", "state", "int64", "batch", "target"),
                port("state.transposed", "state", "float32", "batch", _SIZE, "target"),
                port("state.length", "state", "float32", "batch"),
                port("state.position", "state", "int64", "batch"),
            ),
            state_in_place=self.cache == "in place",
            vocabulary_size=vocabulary,
            output_size=vocabulary,
            layers=layers,
            heads=heads,
            alignment_heads=tuple((layer, heads - 1) for layer in range(layers)),
            pad_id=PAD,
            bos_id=BEGIN,
            eos_id=END,
            suppressed_ids=SUPPRESSED,
            max_source_tokens=self.max_source_tokens,
            max_target_tokens=self.max_target_tokens,
        )

    def encode(self, source: Ids | Pixels, source_length: Ids, *, encoder_attention: bool = False) -> Tensors:
        """See `Decoder.encode`."""
        assert source.min() >= 0
        assert source_length.min() >= 1
        sources = [tuple(row[:length].tolist()) for row, length in zip(source, source_length, strict=True)]
        self.before_encode(sources)
        with self._lock:
            self.encoded.append((source.shape[1], sources))
        positions: Ids = np.arange(source.shape[1], dtype=np.int64)
        mask = positions < source_length[:, None]
        assert (source[~mask] == PAD).all()
        encoded: dict[str, NDArray[Any]] = {
            "memory.source": source,
            "memory.mask": mask[:, :, None],
            "state.length": np.full(len(source), -1, dtype=np.float32),
        }
        if self.cache == "none":
            encoded["state.prefix"] = np.zeros((len(source), _LONGEST), dtype=np.int64)
        return encoded

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        """See `Decoder.bind_step`."""
        assert rows >= 1
        self.bound += 1

        def run() -> None:
            sources: list[Prefix] = [
                tuple(inputs["memory.source"][row][inputs["memory.mask"][row, :, 0]].tolist()) for row in range(rows)
            ]
            with self._lock:
                self.steps.append(sources)
            self.before_step(sources)
            remembered = None if self.cache == "none" else _remember(inputs, outputs, rows)
            for row, source in enumerate(sources):
                # The token of the first step is the begin of sentence, which is no part of the prefix.
                length = int(inputs["state.length"][row])
                token = int(inputs["token"][row])
                assert length >= 0 or token == BEGIN
                if remembered is None:
                    prefix = inputs["state.prefix"][row].copy()
                    if length >= 0:
                        prefix[length] = token
                    outputs["next.state.prefix"][row] = prefix
                else:
                    prefix = remembered[row, 1:]
                length += 1
                said = tuple(prefix[:length].tolist())
                outputs["next.state.length"][row] = length
                outputs["scores"][row] = self.score(source, said)
                if self.attend is not None:
                    outputs["attention"][row] = 0.0
                    outputs["attention"][row][:, :, : len(source)] = self.attend(source, said)

        for port in self.facts.state:
            same = outputs[f"next.{port.name}"].ctypes.data == inputs[port.name].ctypes.data
            assert same == ("target" in port.axes and self.facts.state_in_place)
        return run


# The axis along which each buffer of a fake grows, and what fills one line of it for the token 0.
_BUFFERS: dict[str, tuple[int, NDArray[np.int64]]] = {
    "tokens": (1, np.array(0, dtype=np.int64)),
    "keys_0": (2, 10 + np.arange(_HEADS * _SIZE).reshape(_HEADS, _SIZE)),
    "keys_1": (2, 20 + np.arange(_HEADS * _SIZE).reshape(_HEADS, _SIZE)),
    "transposed": (2, 30 + np.arange(_SIZE)),
}


def _remember(inputs: Tensors, outputs: Tensors, rows: int) -> Ids:
    """Write the tokens of a step to the buffers, garbage behind them, and return what these hold [row, entry]."""
    position = inputs["state.position"][:rows].copy()
    outputs["next.state.position"][:rows] = position + 1
    said: Ids = np.zeros((rows, 0), dtype=np.int64)
    for name, (axis, fill) in _BUFFERS.items():
        # Entry next to row, in both.
        read = np.moveaxis(inputs[f"state.{name}"][:rows], axis, 1)
        written = np.moveaxis(outputs[f"next.state.{name}"][:rows], axis, 1)
        room: int = written.shape[1]
        assert (position < room).all(), "there is no room for this step"
        token = inputs["token"][:rows].reshape(-1, *[1] * fill.ndim)
        written[...] = read
        written[np.arange(rows), position] = token * 100 + fill
        beyond = np.arange(room) > position[:, None]
        written[beyond] = -7 if name == "tokens" else np.nan
        if name == "tokens":
            said = written // 100
            assert (said[~beyond] >= 0).all(), f"{said} was never said"
        expected = said.reshape(*said.shape, *[1] * fill.ndim) * 100 + fill
        assert (written == expected)[~beyond].all(), f"{name} holds {written} where it should hold {expected}"
    return said


@dataclass
class FakeObserver:
    """Meets `regard.server.observer.EngineObserver`; remembers what it was told."""

    steps: list[tuple[float, int, float]] = field(default_factory=list[tuple[float, int, float]])
    queues: list[float] = field(default_factory=list[float])
    token_counts: dict[str, int] = field(default_factory=dict[str, int])
    running_now: int = 0
    waiting_now: int = 0

    def step(self, seconds: float, rows: int, padding_ratio: float) -> None:
        self.steps.append((seconds, rows, padding_ratio))

    def queued(self, seconds: float) -> None:
        self.queues.append(seconds)

    def tokens(self, kind: str, count: int) -> None:
        self.token_counts[kind] = self.token_counts.get(kind, 0) + count

    def running(self, count: int) -> None:
        self.running_now = count

    def waiting(self, count: int) -> None:
        self.waiting_now = count


def request(
    source: Sequence[int],
    *,
    beam_size: int = 1,
    n_best: int | None = None,
    length_penalty: float = 1.0,
    min_length: int = 0,
    max_length: int = 40,
    no_repeat_ngram: int = 0,
    forced: Sequence[int] | None = None,
    keep_attention: bool = True,
    priority: int = 0,
    deadline: float = math.inf,
) -> DecodeRequest:
    """Make a request whose source ends with the end of sentence already."""
    return DecodeRequest(
        source=np.array(source, dtype=np.int64),
        search=SearchOptions(
            beam_size=beam_size,
            n_best=beam_size if n_best is None else n_best,
            length_penalty=length_penalty,
            min_length=min_length,
            max_length=max_length,
            no_repeat_ngram=no_repeat_ngram,
        ),
        forced_target=None if forced is None else np.array(forced, dtype=np.int64),
        keep_attention=keep_attention,
        context=CallContext(request_id="test", priority=priority, deadline=deadline),
    )

"""Searches a model's output for the best target, greedily or with a beam: the reference that servers are held to.

It does not know text, nor any model beyond `encode` and `step`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.training.data.vocabulary import BEGIN, END, PAD, UNKNOWN
from regard.training.models.protocol import Memory, SequenceModel, State

Tensors = TypeVar("Tensors", bound=tuple[Tensor, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """How far and how widely to search; a beam of 1 is greedy search."""

    beam_size: int = 1
    length_penalty: float = 1.0
    max_length: int | None = None  # None: 2 * source tokens + 10, </s> counted, but 256 at most
    no_repeat_ngram: int = 0  # so many tokens in a row are not generated twice; 0: all may be

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise ValueError(f"beam_size is {self.beam_size}, but a beam holds at least 1 hypothesis.")
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length is {self.max_length}, but a target has at least 1 token.")
        if self.no_repeat_ngram < 0:
            raise ValueError(f"no_repeat_ngram is {self.no_repeat_ngram}, but it is at least 0.")

    def limit(self, source_length: int) -> int:
        """Return how many tokens a target may have, </s> counted."""
        return min(2 * source_length + 10, 256) if self.max_length is None else self.max_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A target that was found; its parts have one entry per token."""

    tokens: tuple[int, ...]  # the final </s> among them where finish is "end"
    log_probabilities: tuple[float, ...]
    attention: Tensor  # [target, layer, head, source]; row i is what the model looked at to predict token i
    score: float  # sum of the log-probabilities / number of tokens ** length_penalty
    finish: Literal["end", "length"]


class _Paths(NamedTuple):
    """How each live row came to where it is."""

    tokens: Tensor  # int64 [row, target]
    log_probabilities: Tensor  # [row, target]
    attention: Tensor  # [row, target, layer, head, source]


class _Candidates(NamedTuple):
    """The best continuations of every source that is being searched, best first; [active, candidate]."""

    row: Tensor  # which row is continued
    token: Tensor
    log_probability: Tensor
    total: Tensor  # summed log-probability with this token; -inf where there is no such continuation


@torch.inference_mode()
def search(
    model: SequenceModel[Memory, State], source: Tensor, source_length: Tensor, config: SearchConfig
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every row of source int64 [batch, source], best first, at most beam_size of each.

    Every step takes the best 2 * beam_size continuations of a source's live hypotheses by summed log-probability, so
    that enough stay alive even if all hypotheses could end. One that ends is finished if it is among the best
    beam_size; the best beam_size that do not end stay alive. A source is done when beam_size hypotheses are finished,
    when none is alive, or at its length limit, where live ones fill the places left, best first. <pad>, <unk> and <s>
    are never generated, nor is a token that would make a run of no_repeat_ngram tokens come again; </s> always may be.
    source_length int64 [batch].
    """
    beams = config.beam_size
    device = source.device
    lengths = [int(length) for length in source_length]
    found: list[list[Hypothesis]] = [[] for _ in lengths]
    memory, state = model.encode(source, source_length)
    rows = torch.arange(len(lengths), device=device).repeat_interleave(beams)
    memory, state = _select(memory, rows), _select(state, rows)
    active = list(range(len(lengths)))
    token = torch.full((len(rows),), BEGIN, device=device)
    # All hypotheses of a source start equal, so only the first one counts.
    total = torch.full((len(lengths), beams), -torch.inf, device=device)
    total[:, 0] = 0.0
    paths: _Paths | None = None
    length = 0
    while active:
        length += 1
        log_probs, state, attention = model.step(token, state, memory)
        log_probs[:, [PAD, UNKNOWN, BEGIN]] = -torch.inf
        if paths is None:
            nothing = log_probs.new_empty((len(rows), 0))
            paths = _Paths(nothing.long(), nothing, attention.new_empty((len(rows), 0, *attention.shape[1:])))
        _forbid_repeats(log_probs, paths.tokens, config.no_repeat_ngram)
        paths = paths._replace(attention=torch.cat((paths.attention, attention.unsqueeze(1)), dim=1))
        candidates = _best(log_probs, total)
        kept: list[tuple[int, int]] = []  # places among the candidates, beam_size for each source that goes on
        real: list[bool] = []
        going_on: list[int] = []
        for place, number in enumerate(active):
            at_limit = length >= config.limit(lengths[number])
            ended, alive = _divide(candidates, place, beams)
            finishing = [*ended, *alive] if at_limit else ended
            for rank in finishing[: beams - len(found[number])]:
                found[number].append(_finish(paths, candidates, (place, rank), lengths[number], config))
            if at_limit or not alive or len(found[number]) == beams:
                continue
            going_on.append(number)
            kept.extend((place, (alive[beam : beam + 1] or alive)[0]) for beam in range(beams))
            real.extend(beam < len(alive) for beam in range(beams))
        active = going_on
        places = torch.tensor(kept, dtype=torch.long, device=device).view(-1, 2).unbind(1)
        parent, token = candidates.row[places], candidates.token[places]
        paths = _grow(paths, candidates, places)
        # Places beyond the hypotheses that are left hold copies that cannot win.
        dead = ~torch.tensor(real, dtype=torch.bool, device=device)
        total = candidates.total[places].masked_fill(dead, -torch.inf).view(-1, beams)
        memory, state = _select(memory, parent), _select(state, parent)
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in found]


def search_all(
    model: SequenceModel[Memory, State], sources: Sequence[Sequence[int]], config: SearchConfig, *, rows: int = 256
) -> list[list[Hypothesis]]:
    """Search for every source, ids that end in </s>, in batches of similar length of at most `rows` hypotheses."""
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    size = max(rows // config.beam_size, 1)
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        length = torch.tensor([len(sources[number]) for number in numbers])
        source = torch.full((len(numbers), int(length.max())), PAD)
        for row, number in enumerate(numbers):
            source[row, : len(sources[number])] = torch.tensor(sources[number])
        for number, hypotheses in zip(numbers, search(model, source, length, config), strict=True):
            found[number] = hypotheses
    return found


def _best(log_probs: Tensor, total: Tensor) -> _Candidates:
    """Find the 2 * beam best continuations: log_probs [row, vocabulary], total [active, beam]."""
    sources, beams = total.shape
    vocabulary = log_probs.shape[1]
    continued = (total.unsqueeze(2) + log_probs.view(sources, beams, vocabulary)).flatten(1)
    best, index = continued.topk(min(2 * beams, continued.shape[1]), dim=1)
    row = torch.arange(sources, device=log_probs.device).unsqueeze(1) * beams + index // vocabulary
    token = index % vocabulary
    return _Candidates(row, token, log_probs[row, token], best)


def _forbid_repeats(log_probs: Tensor, generated: Tensor, size: int) -> None:
    """Make -inf what would repeat a run of `size` tokens: log_probs [row, vocabulary], generated [row, target]."""
    length = generated.shape[1]
    if not size or length < size:
        return
    runs = generated.unfold(1, size, 1)
    row, start = (runs[:, :, :-1] == generated[:, None, length - size + 1 :]).all(dim=2).nonzero(as_tuple=True)
    log_probs[row, runs[row, start, -1]] = -torch.inf


def _divide(candidates: _Candidates, place: int, beams: int) -> tuple[list[int], list[int]]:
    """Return the ranks of a source's candidates that finish and of those that go on."""
    ended: list[int] = []
    alive: list[int] = []
    for rank in range(candidates.total.shape[1]):
        if candidates.total[place, rank] == -torch.inf:
            continue
        if candidates.token[place, rank] != END:
            alive.append(rank)
        elif rank < beams:
            ended.append(rank)
    return ended, alive[:beams]


def _grow(paths: _Paths, candidates: _Candidates, places: tuple[Tensor, ...]) -> _Paths:
    """Return the paths of the candidates at places, indices along each axis; attention has its last step already."""
    before = _select(paths, candidates.row[places])
    return before._replace(
        tokens=torch.cat((before.tokens, candidates.token[places].unsqueeze(1)), dim=1),
        log_probabilities=torch.cat((before.log_probabilities, candidates.log_probability[places].unsqueeze(1)), dim=1),
    )


def _finish(
    paths: _Paths, candidates: _Candidates, at: tuple[int, int], source_length: int, config: SearchConfig
) -> Hypothesis:
    """Make a hypothesis of the candidate at [active, candidate]."""
    row = candidates.row[at]
    last = int(candidates.token[at])
    tokens = (*(int(token) for token in paths.tokens[row]), last)
    return Hypothesis(
        tokens=tokens,
        log_probabilities=(
            *(float(each) for each in paths.log_probabilities[row]),
            float(candidates.log_probability[at]),
        ),
        attention=paths.attention[row, ..., :source_length].clone(),
        score=float(candidates.total[at]) / len(tokens) ** config.length_penalty,
        finish="end" if last == END else "length",
    )


def _select(tensors: Tensors, rows: Tensor) -> Tensors:
    """Return the same NamedTuple with the given rows of every tensor."""
    selected = [tensor.index_select(0, rows) for tensor in tensors]
    return type(tensors)(*selected)

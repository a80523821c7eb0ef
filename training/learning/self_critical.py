"""Self-critical training: of several samples of a source, those better than the others become more probable.

Self-critical sequence training (Rennie et al. 2017, section 3) with the other samples of the same source for a baseline
(Luo 2020). It does not know sources, nor how a reward is made.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from regard.training.data.translation_data import Batch
from regard.training.data.vocabulary import BEGIN, END, PAD, UNKNOWN
from regard.training.models.protocol import SequenceModel

# Given samples int64 [source, sample, length] and the targets of their sources [source, target, length], returns how
# good each sample is, float32 [source, sample].
Reward: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class Samples(NamedTuple):
    """Samples, and how much is made of each."""

    batch: Batch  # the sources with the samples for targets
    advantage: Tensor  # [row], how much better than the mean of the others of its source
    reward: float  # the mean of all


class SelfCritical:
    """Samples several targets of each source, as many times as many as a batch has for it, and compares them."""

    def __init__(self, reward: Reward, *, longest: int, times: int = 1) -> None:
        self._reward = reward
        self._longest = longest
        self._times = times

    def draw(self, model: SequenceModel[Any, Any], batch: Batch) -> Samples:
        """Return samples of a batch's sources; there have to be at least two of each.

        A sample is at most twice as long as the longest target of the batch: what goes on longer is worth nothing.
        """
        sources = len(batch.source)
        targets = torch.unflatten(batch.target_out, 0, (sources, -1))
        each = self._times * targets.shape[1]
        if each < 2:
            raise ValueError(f"a source has {each} samples, but one is compared with the others")
        source, length = (part.repeat_interleave(self._times, dim=0) for part in (batch.source, batch.source_length))
        longest = min(self._longest, 2 * batch.target_out.shape[1])
        samples = sample(model, source, length, each=targets.shape[1], longest=longest)
        reward = self._reward(torch.unflatten(samples, 0, (sources, each)), targets)
        others = (reward.sum(dim=1, keepdim=True) - reward) / (each - 1)
        begin = samples.new_full((len(samples), 1), BEGIN)
        target_in = torch.cat((begin, samples[:, :-1]), dim=1)
        return Samples(Batch(source, length, target_in, samples), (reward - others).flatten(), float(reward.mean()))


@torch.no_grad()
def sample(model: SequenceModel[Any, Any], source: Tensor, source_length: Tensor, *, each: int, longest: int) -> Tensor:
    """Return int64 [source * each, target], drawn token by token; <pad> beyond </s>, and no </s> at the length limit.

    <pad>, <unk> and <s> are never drawn.
    """
    memory, state = model.encode(source, source_length)
    memory, state = (type(part)(*(one.repeat_interleave(each, dim=0) for one in part)) for part in (memory, state))
    token = torch.full((len(source) * each,), BEGIN, device=source.device)
    going_on = torch.ones_like(token, dtype=torch.bool)
    drawn: list[Tensor] = []
    while len(drawn) < longest and bool(going_on.any()):
        log_probs, state, _ = model.step(token, state, memory)
        log_probs[:, [PAD, UNKNOWN, BEGIN]] = -torch.inf
        # Not exp: what is never drawn may have had all of the probability.
        token = torch.multinomial(log_probs.softmax(dim=1), 1).squeeze(1).masked_fill(~going_on, PAD)
        drawn.append(token)
        going_on = going_on & (token != END)
    return torch.stack(drawn, dim=1)


def weighted_log_loss(model: SequenceModel[Any, Any], features: Tensor, samples: Samples) -> Tensor:
    """Return minus the log-probability of samples, each weighted by its advantage, per token: features as `forward`'s.

    Its gradient is that of minus the expected reward (Rennie et al. 2017, equation 7), but that what is never drawn
    keeps its share of the probability.
    """
    target = samples.batch.target_out
    real = target != PAD
    logits = torch.nn.functional.linear(features[real], model.output.weight, model.output.bias)
    log_probability = torch.log_softmax(logits, dim=1).gather(1, target[real].unsqueeze(1)).squeeze(1)
    weight = samples.advantage.unsqueeze(1).expand(target.shape)[real]
    return -(weight * log_probability).mean()

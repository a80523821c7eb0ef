"""Trains one head of attention to align: Garg et al. 2019, section 4.2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.training.data.translation_data import Batch, Example
from regard.training.data.vocabulary import PAD
from regard.training.learning.lexicon import Lexicon, LexiconConfig, learn_lexicon

# A weight that is exactly 0 still has a logarithm.
_TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceConfig:
    """Which head is taught, how hard, and by which links."""

    layer: int  # of the decoder, from 0
    head: int  # from 0
    lag: int = 0  # steps from the one that predicts a token to the one that looks at what it translates; 1: that fed it
    weight: float = 0.5  # of the guided loss beside the translation's
    lexicon: LexiconConfig = field(default_factory=LexiconConfig)

    def __post_init__(self) -> None:
        if self.layer < 0 or self.head < 0:
            raise ValueError(f"layer is {self.layer} and head {self.head}, but both count from 0.")
        if self.lag not in (0, 1):
            raise ValueError(f"lag is {self.lag}, but it is 0 or 1.")
        if self.weight <= 0.0:
            raise ValueError(f"weight is {self.weight}, but a head is taught by a positive one.")


class Guidance:
    """Links the pairs of a batch and compares with them what the head looks at.

    Links are made of the very batch, so that joined and rewritten sentences have theirs.
    """

    def __init__(self, config: GuidanceConfig, lexicons: Mapping[int, Lexicon]) -> None:
        self.config = config
        self.lexicons = lexicons  # by the entry that ends a source

    @torch.no_grad()
    def links(self, batch: Batch) -> Tensor:
        """Return bool [batch, target, source]: what each token translates. Ends are linked with nothing."""
        source, target = batch.source.cpu(), batch.target_out.cpu()
        source_length, target_length = batch.source_length.cpu() - 1, (target != PAD).sum(dim=1) - 1
        ends = source.gather(1, source_length.unsqueeze(1)).squeeze(1)
        links = torch.zeros(*target.shape, source.shape[1], dtype=torch.bool)
        for end, lexicon in self.lexicons.items():
            rows = (ends == end).nonzero().squeeze(1)
            if rows.numel():
                links[rows] = lexicon.links(source[rows], source_length[rows], target[rows], target_length[rows])
        return links.to(batch.source.device)

    def loss(self, attention: Tensor, links: Tensor) -> Tensor:
        """Return the guided loss of attention [batch, target, layer, head, source], weighted."""
        return self.config.weight * guided_cross_entropy(*self._beside(attention, links))

    def agreement(self, attention: Tensor, links: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many linked tokens the head looks at a link of, more than at anything else; and how many are.

        attention [batch, target, layer, head, source], links bool [batch, target, source].
        """
        looks, links = self._beside(attention, links)
        return links.gather(2, looks.argmax(dim=2, keepdim=True)).sum(), links.any(dim=2).sum()

    def _beside(self, attention: Tensor, links: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the head looks at, and the links of the tokens that it looks for: [batch, target, source] each.

        Nothing is lost by a lag: the last token is an end, which has no links.
        """
        lag = self.config.lag
        return attention[:, lag:, self.config.layer, self.config.head], links[:, : links.shape[1] - lag]


def guided_cross_entropy(weights: Tensor, links: Tensor) -> Tensor:
    """Return the mean cross-entropy of weights [batch, target, source] over the tokens that have a link.

    links bool [batch, target, source] share a token's probability evenly: Garg et al. 2019, equation 6. A token without
    one, padding among them, asks for nothing.
    """
    # In full precision whatever the network computes in: small weights have no logarithm in half.
    with torch.autocast(weights.device.type, enabled=False):
        count = links.sum(dim=2)
        linked = count > 0
        wanted = links[linked] / count[linked].unsqueeze(1)
        loss = -(wanted * torch.log(weights[linked].float() + _TINY)).sum()
        return loss / max(wanted.shape[0], 1)


def learn_guidance(examples: Sequence[Example], config: GuidanceConfig, *, vocabulary: int) -> Guidance:
    """Learn a lexicon of each target language, told by the entries that end the sources, and return what guides by it.

    vocabulary is how many ids there are.
    """
    groups: dict[int, list[Example]] = {}
    for example in examples:
        groups.setdefault(example[0][-1], []).append(example)
    return Guidance(
        config,
        {end: learn_lexicon(group, config.lexicon, vocabulary=vocabulary) for end, group in groups.items()},
    )

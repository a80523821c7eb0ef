"""States the search rule: which tokens may follow, what a beam keeps, when a search ends and how hypotheses rank.

- **Tokens.** <pad>, <unk> and <s> are suppressed at every step, </s> until a hypothesis has `min_length` tokens. N-gram
  blocking (`ngram_blocking`) forbids a token that would complete an n-gram which the hypothesis already contains. It
  never forbids </s>, and allows it even before `min_length` where it takes the last token that was allowed.
- **Greedy search** takes the most probable token of each row, of equal ones that of the lowest id.
- **Beam search** extends all live hypotheses at once: it orders their continuations by summed log-probability (ties:
  the hypothesis that ranked higher, then the lower id) and looks at the best 2 * beam_size. A continuation by </s> is
  finished if it ranks among the first beam_size; the best beam_size others stay alive. A beam of 1 is greedy search.
- **End.** A search is over as soon as it has beam_size finished hypotheses, when none is alive, or when the live ones
  have reached their limit (`max_length`, or twice the source plus 10): then these fill the places left, best first.
- **Forced targets** take their tokens as given, allowed or not, and are scored with the </s> behind them.
- **Score.** Sum of log-probabilities, that of </s> included, over (number of these tokens) ** length_penalty.
- **Nothing allowed.** A search with no allowed token and nothing finished goes on with `OutputVocabulary.fallback_id`
  at a log-probability of `FLOOR`. No log-probability that leaves the search is below `FLOOR`.
- **NaN or +inf** in the log-probabilities or the attention of a row fails the request that owns it, and no other.

`array_path` follows the rule for any batch, `few_rows` for small ones; `batch_search` picks one. Both are held to the
rule in plain Python, `tests/server/engine_reference.py`. `training/decoding/search.py` is the same rule in PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.server.request import Ids

Slots = NDArray[np.intp]

FLOOR = np.float32(-1e4)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputVocabulary:
    """The tokens that a search chooses among. A token is a column of the log-probabilities.

    Attributes:
        size: number of columns.
        bos_id: fed at the first step; not always a column.
        eos_id: ends a target.
        suppressed_ids: never generated.
        token_ids: id of each column and, last, of bos_id; None where column and id are the same.
    """

    size: int
    bos_id: int
    eos_id: int
    suppressed_ids: tuple[int, ...]
    token_ids: Ids | None = None

    @property
    def fallback_id(self) -> int:
        """The first token that is not special: what follows where nothing is allowed."""
        special = {*self.suppressed_ids, self.eos_id}
        return next(token for token in range(self.size + 1) if token not in special)

    def columns(self, ids: Ids) -> Ids:
        """Return the columns of given ids, all of which have one."""
        return ids if self.token_ids is None else np.searchsorted(self.token_ids[:-1], ids)

    def ids(self, columns: Ids) -> Ids:
        """Return the ids of columns."""
        return columns if self.token_ids is None else self.token_ids.take(columns)


class FinishedHypothesis(NamedTuple):
    """The last token of a hypothesis, and where the others are found.

    Attributes:
        parent: number of the hypothesis that it continues, among those alive before the last step.
        length: tokens before the last one.
        token: the last one; eos_id if `ended`.
        log_prob: of the last token.
        ended: by the end of sentence, not by its limit.
        total: summed log-probabilities of all tokens; 0 outside of beams, where nothing is ranked.
    """

    parent: int
    length: int
    token: int
    log_prob: float
    ended: bool
    total: float


def length_normalised(total: float, tokens: int, length_penalty: float) -> float:
    """Return the score of a hypothesis of so many tokens, its end of sentence included, whose log-probabilities sum up.

    This is the plain length penalty of Wu et al. 2016 (arXiv 1609.08144, section 7) without its constants.
    """
    return total / max(tokens, 1) ** length_penalty

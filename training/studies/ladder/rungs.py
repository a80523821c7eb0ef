"""Names the rungs of the ladder: what each is, its equation, its source, and what others measured with its like.

It does not know how a rung did here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A step from a network without attention to the Transformer."""

    recipe: str
    name: str
    equation: str  # as Markdown mathematics
    text: str
    source: str
    required: bool = True  # whether a page without it makes no sense


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure of a paper: lowercased, tokenised BLEU on one test set, best compared with one rung."""

    recipe: str
    test_set: str
    value: float
    source: str


RUNGS = (
    Rung(
        recipe="multi30k_plain",
        name="no attention",
        equation=r"s_0 = \tanh(W [\overrightarrow{h}_n; \overleftarrow{h}_1]), \qquad "
        r"s_t = \mathrm{GRU}(y_{t-1}, s_{t-1})",
        text="The encoder's last states start the decoder, and are all that it ever learns of the source. "
        "Whatever is to be said at the end has to be remembered from the beginning.",
        source="Sutskever, Vinyals and Le 2014, section 2 (with GRUs, read in both directions)",
    ),
    Rung(
        recipe="multi30k_fixed",
        name="fixed context",
        equation=r"c = [\overrightarrow{h}_n; \overleftarrow{h}_1], \qquad s_t = \mathrm{GRU}([y_{t-1}; c], s_{t-1})",
        text="One vector c of the whole source is shown to the decoder at every step. Nothing has to be remembered, "
        "but everything has to fit into c, however long the source is.",
        source="Cho et al. 2014, section 2.2",
    ),
    Rung(
        recipe="multi30k_attention",
        name="additive attention",
        equation=r"e_{ti} = v^\top \tanh(W s_{t-1} + U h_i), \quad a_t = \mathrm{softmax}(e_t), \quad "
        r"c_t = \sum_i a_{ti} h_i, \quad s_t = \mathrm{GRU}([y_{t-1}; c_t], s_{t-1})",
        text="Every step looks for what it needs: the state asks, every source position answers, and a softmax makes "
        "of the answers a new context. The memory grows with the source.",
        source="Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A",
    ),
    Rung(
        recipe="multi30k_transformer",
        name="Transformer",
        equation=r"Y = \mathrm{softmax}(Q K^\top / \sqrt{D_Q})\, V",
        text="Attention is all that moves anything from one position to another, in the source, in the target and "
        "between them: no state is handed on, so that all positions are learnt at once.",
        source="Vaswani et al. 2017, section 3; sizes of Wu et al. 2021",
        required=False,
    ),
)

PUBLISHED = (
    Published(
        recipe="multi30k_attention",
        test_set="test_2016_flickr",
        value=38.1,
        source="LIUM-CVC: Caglayan et al. 2017, the text-only network with additive attention",
    ),
    Published(
        recipe="multi30k_transformer",
        test_set="test_2016_flickr",
        value=41.02,
        source="Wu et al. 2021, Transformer-Tiny, text alone",
    ),
)


def rung_of(recipe: str) -> Rung:
    """Return a rung by its recipe; raises ValueError for one that is no rung."""
    for rung in RUNGS:
        if rung.recipe == recipe:
            return rung
    raise ValueError(f"{recipe} is not on the ladder, which has {', '.join(rung.recipe for rung in RUNGS)}.")

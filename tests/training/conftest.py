"""A small vocabulary and a small untrained model, shared by the tests of training."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import pytest
import torch

from regard.training.data.vocabulary import Vocabulary
from regard.training.models.recurrent import UnitName
from regard.training.models.rnn import ContextName, Rnn, RnnConfig

SOURCES = [
    "We are eating bread.",
    "I don't know.",
    "Where is the bread?",
    "We know the way, don't we?",
    "It is 1984.",
] * 4
TARGETS = ["Estamos comiendo pan.", "No sé.", "¿Dónde está el pan?", "Sabemos el camino, ¿no?", "Es 1984."] * 4


@pytest.fixture(scope="session")
def learnt() -> tuple[Vocabulary, int]:
    """A vocabulary and how many of its entries can be predicted."""
    return Vocabulary.train(SOURCES, TARGETS, size=120)


@pytest.fixture(scope="session")
def vocabulary(learnt: tuple[Vocabulary, int]) -> Vocabulary:
    """A vocabulary learnt from a few sentences."""
    return learnt[0]


@pytest.fixture
def model() -> Rnn:
    """An untrained model of 12 entries, 9 of them predictable, with weights large enough to prefer something."""
    return _untrained("attention", "gru")


@pytest.fixture(params=[(context, cell) for context in ("none", "fixed", "attention") for cell in ("gru", "lstm")])
def rung(request: pytest.FixtureRequest) -> Rnn:
    """The same with every context and cell."""
    return _untrained(*request.param)


def _untrained(context: ContextName, cell: UnitName) -> Rnn:
    torch.manual_seed(3)
    sizes = RnnConfig(
        vocabulary=12,
        output=9,
        embedding=8,
        encoder=5,
        decoder=7,
        attention=6,
        dropout=0.5,
        context=context,
        cell=cell,
    )
    model = Rnn(sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model

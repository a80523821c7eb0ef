"""A state that grows is exported by the Protocol alone: buffers with rows of different ages, attention kept."""

# torch types manual_seed only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch
from tests.export.rungs import TEXT, export_untrained, serve
from tests.export.toy import quiet
from torch import Tensor, nn

from regard.export.bundle.writer import Bundle
from regard.export.errors import ParityError, TraceError
from regard.export.families.growing_state import find_growth
from regard.export.surgery.storage import round_weights
from regard.export.verify import verify
from regard.training.data.vocabulary import END
from regard.training.decoding.search import SearchConfig, search_all
from regard.training.families import FAMILIES, Family, TrainedModel
from regard.training.learning import checkpoint
from regard.training.models.attention import AdditiveAttention, masked_softmax
from regard.training.models.output_layer import TiedOutput
from regard.v1 import bundle_pb2

DIM = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallConfig:
    """Sizes of the network."""

    vocabulary: int
    output: int


class RecallMemory(NamedTuple):
    """What the decoder attends to."""

    keys: Tensor  # [batch, source, dim]
    values: Tensor  # [batch, source, dim]
    mask: Tensor  # bool [batch, source]


class RecallState(NamedTuple):
    """A hidden state beside all tokens so far, which it attends to."""

    hidden: Tensor  # [batch, dim], made by `encode`
    tokens: Tensor  # [batch, past, dim]
    position: Tensor  # int64 [batch]


class Recall(nn.Module):
    """Attends to the source additively and to its own past by products, which it keeps in a state that grows."""

    def __init__(self, config: RecallConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, DIM)
        self.attention = AdditiveAttention(query_dim=DIM, memory_dim=DIM, dim=DIM)
        self.mix = nn.Linear(4 * DIM, DIM)
        self.output = TiedOutput(self.embedding, config.output)

    @property
    def attention_axes(self) -> tuple[int, int]:
        return 1, 1

    def prepare_for_export(self) -> None:
        self.output.prepare_for_export()

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[RecallMemory, RecallState]:
        mask = torch.arange(source.shape[1]) < source_length.unsqueeze(1)
        values = self.embedding(source) * mask.unsqueeze(2)
        hidden = torch.tanh(values.sum(dim=1))
        state = RecallState(hidden, hidden.unsqueeze(1)[:, :0], torch.zeros_like(source_length))
        return RecallMemory(self.attention.project(values), values, mask), state

    def step(self, token: Tensor, state: RecallState, memory: RecallMemory) -> tuple[Tensor, RecallState, Tensor]:
        embedded = self.embedding(token)
        weights = masked_softmax((state.tokens * state.hidden.unsqueeze(1)).sum(dim=2), self._real(state))
        recalled = (weights.unsqueeze(2) * state.tokens).sum(dim=1)
        context, attention = self.attention(state.hidden, *memory)
        hidden = torch.tanh(self.mix(torch.cat((embedded, recalled, context, state.hidden), dim=1)))
        tokens = torch.cat((state.tokens, embedded.unsqueeze(1)), dim=1)
        scores = torch.log_softmax(self.output(hidden), dim=1)
        return scores, RecallState(hidden, tokens, state.position + 1), attention[:, None, None]

    def _real(self, state: RecallState) -> Tensor:
        return torch.arange(state.tokens.shape[1]) < state.position.unsqueeze(1)


class Careless(Recall):
    """Attends to all of a buffer, whatever is real."""

    def _real(self, state: RecallState) -> Tensor:
        return torch.ones(state.tokens.shape[:2], dtype=torch.bool)


class Uncounted(Recall):
    """Does not begin to count at 0."""

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[RecallMemory, RecallState]:
        memory, state = super().encode(source, source_length)
        return memory, state._replace(position=source_length)


class Begun(Recall):
    """Has entries before the first step."""

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[RecallMemory, RecallState]:
        memory, state = super().encode(source, source_length)
        return memory, state._replace(tokens=state.hidden.unsqueeze(1))


class Made(NamedTuple):
    """A bundle of the family in memory and on disk, and the checkpoint that it was made of."""

    run: Path
    bundle: Bundle
    folder: Path


def untrained(kind: type[Recall], root: Path) -> Made:
    def model(vocabulary: int, output: int) -> TrainedModel:
        return cast("TrainedModel", kind(RecallConfig(vocabulary=vocabulary, output=output)))

    return Made(*export_untrained(model, "recall", root, traced_once=False, sureness=1.0))


@pytest.fixture(scope="module", autouse=True)
def families() -> Iterator[None]:
    """List the families of this module while its tests run."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Recall, Careless):
            patch.setitem(FAMILIES, kind.__name__.lower(), Family(RecallConfig, cast(Any, kind)))
        yield


@pytest.fixture(scope="module")
def made(families: None, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An untrained model with its bundle; nobody may write to it."""
    return untrained(Recall, tmp_path_factory.mktemp("growing"))


def test_the_bundle_holds_with_a_buffer_and_a_count_of_its_entries(made: Made) -> None:
    verify(made.folder, quiet)
    portable, cpu = made.bundle.manifest.profiles
    assert (portable.precision, cpu.precision) == (
        bundle_pb2.PRECISION_FLOAT16_WEIGHTS,
        bundle_pb2.PRECISION_INT8,
    )
    axes = {port.name: list(port.axes) for port in portable.step.inputs}
    assert axes["state.tokens"] == ["batch", "target", str(DIM)]
    assert axes["state.position"] == ["batch"]
    # The server begins what `encode` does not return with zeros.
    given = {port.name for port in portable.encode.outputs}
    assert given == {"memory.keys", "memory.values", "memory.mask", "state.hidden"}


def test_beams_served_from_a_growing_state_are_those_of_the_reference_search(made: Made) -> None:
    replies = serve(made.folder.parents[1], ["recall"], profile="portable")["recall"]
    found = checkpoint.load(made.run)
    round_weights(found.model)
    (expected,) = search_all(found.model, found.vocabulary.encode_all([TEXT]), SearchConfig(beam_size=4))  # pyright: ignore[reportArgumentType]  any of the models
    hypotheses = replies.beam.segments[0].hypotheses
    assert [[token.id for token in one.tokens] for one in hypotheses] == [
        [token for token in one.tokens if token != END] for one in expected
    ]
    np.testing.assert_allclose([one.score for one in hypotheses], [one.score for one in expected], atol=1e-4)
    answered = replies.attention
    assert not isinstance(answered, Exception)
    attention = answered.segments[0].hypotheses[0].attention
    weights = np.frombuffer(attention.values, "<f4").reshape(attention.shape)
    assert weights.shape[:2] == (1, 1)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)


def test_a_model_that_attends_to_what_others_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match=r"scores differs|next\.state\.hidden differs"):
        untrained(Careless, tmp_path)


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Uncounted, "needs a field position, int64"), (Begun, r"goes from \(3, 1, 64\) to \(3, 2, 64\) .* begins empty")],
)
def test_a_state_that_grows_in_another_way_is_refused(kind: type[Recall], said: str) -> None:
    with pytest.raises(TraceError, match=said):
        find_growth(kind(RecallConfig(vocabulary=20, output=12)).eval(), vocabulary=20)

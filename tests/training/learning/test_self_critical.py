"""Learning from what is said: samples, what they are compared with, and what becomes more probable."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from regard.training.data.translation_data import Batch
from regard.training.data.vocabulary import BEGIN, END, PAD, UNKNOWN, Vocabulary
from regard.training.learning.caption_reward import CaptionReward
from regard.training.learning.fit import FitConfig, Fitting
from regard.training.learning.self_critical import SelfCritical, sample, weighted_log_loss
from regard.training.learning.translation_reward import TranslationReward

SIZE = 8
GOOD = 5
CAPTIONS = [["a dog runs", "a dog is running"], ["a cat sleeps", "the cat sleeps"], ["a bird sings"]]


class Row(NamedTuple):
    """Memory and state of the model below."""

    number: Tensor  # [batch, 1]


class OneTableModel(nn.Module):
    """A model that says the same whatever it has seen and said, by one row of scores that can be learnt."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.output = nn.Linear(1, SIZE)
        nn.init.zeros_(self.output.weight)
        self.output.bias = nn.Parameter(torch.tensor(scores))
        self.asked: list[tuple[str, bool]] = []  # what for, and whether parts were being dropped

    @property
    def attention_axes(self) -> tuple[int, int]:
        """One layer and head."""
        return 1, 1

    def encode(self, source: Tensor, source_length: Tensor) -> tuple[Row, Row]:
        """Remember the length."""
        self.asked.append(("encode", self.training))
        return Row(source_length.unsqueeze(1).float()), Row(source_length.unsqueeze(1).float())

    def step(self, token: Tensor, state: Row, memory: Row) -> tuple[Tensor, Row, Tensor]:
        """Say what is always said."""
        scores = torch.log_softmax(self.output.bias, dim=0).expand(len(token), SIZE).clone()
        return scores, state, torch.ones(len(token), 1, 1, 1)

    def forward(self, source: Tensor, source_length: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and attention."""
        self.asked.append(("forward", self.training))
        shape = target_in.shape
        return torch.zeros(*shape, 1), torch.ones(*shape, 1, 1, 1)


@pytest.fixture
def model() -> OneTableModel:
    torch.manual_seed(3)
    return OneTableModel([3.0, 3.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0])


def batch(sources: int = 3, each: int = 4) -> Batch:
    target = torch.full((sources * each, 2), END)
    return Batch(torch.full((sources, 1), END), torch.ones(sources, dtype=torch.long), target, target)


def count_good(samples: Tensor, targets: Tensor) -> Tensor:
    return (samples == GOOD).sum(dim=2).float()


def test_samples_are_targets_that_can_be_served(model: OneTableModel) -> None:
    drawn = sample(model, torch.full((50, 1), END), torch.ones(50, dtype=torch.long), each=3, longest=6)
    assert drawn.shape == (150, 6)
    for row in drawn.tolist():
        said = row[: row.index(END)] if END in row else row
        assert not {PAD, UNKNOWN, BEGIN} & set(said)
        assert set(row[len(said) + 1 :]) <= {PAD}
    assert any(END not in row for row in drawn.tolist())


def test_a_model_that_is_sure_of_what_is_never_said_says_something_else() -> None:
    sure = OneTableModel([-200.0, 200.0, -200.0, -200.0, -200.0, 0.0, -200.0, -200.0])
    drawn = sample(sure, torch.full((2, 1), END), torch.ones(2, dtype=torch.long), each=2, longest=3)
    assert (drawn == GOOD).all()


def test_a_sample_is_compared_with_the_others_of_its_source(model: OneTableModel) -> None:
    said = SelfCritical(count_good, longest=6).draw(model, batch())
    good = (said.batch.target_out == GOOD).sum(dim=1).float().view(3, 4)
    for row in range(3):
        for place in range(4):
            others = [float(good[row, other]) for other in range(4) if other != place]
            expected = float(good[row, place]) - sum(others) / 3
            assert float(said.advantage.view(3, 4)[row, place]) == pytest.approx(expected, abs=1e-6)
    assert said.reward == pytest.approx(float(good.mean()))


def test_samples_are_fed_as_they_were_drawn(model: OneTableModel) -> None:
    said = SelfCritical(count_good, longest=6).draw(model, batch()).batch
    assert (said.target_in[:, 0] == BEGIN).all()
    assert torch.equal(said.target_in[:, 1:], said.target_out[:, :-1])


def test_what_is_rewarded_becomes_more_probable(model: OneTableModel) -> None:
    critic = SelfCritical(count_good, longest=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = float(torch.log_softmax(model.output.bias.detach()[3:], dim=0)[GOOD - 3])
    for _ in range(40):
        said = critic.draw(model, batch(sources=4, each=8))
        features, _ = model(said.batch.source, said.batch.source_length, said.batch.target_in)
        optimizer.zero_grad()
        weighted_log_loss(model, features, said).backward()
        optimizer.step()
    after = float(torch.log_softmax(model.output.bias.detach()[3:], dim=0)[GOOD - 3])
    assert after > before + 0.5


def test_nothing_is_dropped_while_it_speaks_and_all_is_as_before_when_it_learns(
    model: OneTableModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log(*values: object, **options: object) -> None:
        """Stands for the log of a trainer."""

    config = FitConfig(epochs=1, learning_rate=1.0)
    fitting = Fitting(model, config, critic=SelfCritical(count_good, longest=3)).train()
    monkeypatch.setattr(fitting, "log", log)
    fitting.training_step(batch(), 0)
    assert model.asked == [("encode", False), ("forward", True)]


def test_a_single_sample_has_nothing_to_be_compared_with(model: OneTableModel) -> None:
    with pytest.raises(ValueError, match="1 samples"):
        SelfCritical(count_good, longest=6).draw(model, batch(each=1))


def test_captions_are_rewarded_for_what_people_say_and_for_saying_it_to_the_end() -> None:
    vocabulary, _ = Vocabulary.train([], [caption for each in CAPTIONS for caption in each], size=60, lower=True)
    said = vocabulary.encode_all(["a dog runs", "a dog runs", "a cat sleeps"])
    said[1][-1] = PAD  # broken off before </s>
    rows = torch.tensor([[*row, *[PAD] * (12 - len(row))] for row in said]).unsqueeze(0)
    wanted = torch.tensor([[*row, *[PAD] * (12 - len(row))] for row in vocabulary.encode_all(CAPTIONS[0])]).unsqueeze(0)
    whole, broken_off, other = CaptionReward(CAPTIONS, vocabulary)(rows, wanted)[0].tolist()
    assert whole > broken_off > other


def test_each_target_may_stand_for_several_samples(model: OneTableModel) -> None:
    one_each = batch(each=1)._replace(source=torch.tensor([[4], [5], [6]]))
    said = SelfCritical(count_good, longest=4, times=5).draw(model, one_each)
    assert said.batch.source.flatten().tolist() == [4] * 5 + [5] * 5 + [6] * 5
    assert len(said.batch.target_out) == 15
    torch.testing.assert_close(said.advantage.view(3, 5).sum(dim=1), torch.zeros(3), atol=1e-5, rtol=0)


def test_no_sample_is_longer_than_twice_the_longest_target(model: OneTableModel) -> None:
    said = SelfCritical(count_good, longest=100).draw(model, batch(sources=40))
    assert said.batch.target_out.shape[1] == 4


def test_translations_are_rewarded_for_what_they_share_with_the_reference() -> None:
    texts = ["a dog runs .", "a dog runs", "a dog runs . runs . runs .", "a dog", "the cat"]
    vocabulary, _ = Vocabulary.train([], texts, size=60, lower=True)
    rows = vocabulary.encode_all(texts)
    longest = max(map(len, rows))
    samples = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows]).unsqueeze(0)
    same, shorter, longer, half, other = TranslationReward(vocabulary)(samples, samples[:, :1])[0].tolist()
    assert same == 1.0
    assert same > shorter > half > other
    assert shorter > longer

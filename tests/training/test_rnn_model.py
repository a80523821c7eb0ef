"""The recurrent model: one computation, by steps or at once, alone or in company."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import pytest
import torch

from training.rnn import Rnn, RnnConfig

SOURCE = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0], [11, 10, 3, 0]])
LENGTH = torch.tensor([4, 2, 3])
TARGET_IN = torch.tensor([[2, 4, 5, 6, 7], [2, 8, 4, 4, 5], [2, 6, 6, 5, 8]])


@torch.inference_mode()
def test_steps_give_what_the_whole_target_gives(model: Rnn) -> None:
    features, attention = model(SOURCE, LENGTH, TARGET_IN)
    expected = torch.log_softmax(model.output(features), dim=2)
    memory, state = model.encode(SOURCE, LENGTH)
    for position in range(TARGET_IN.shape[1]):
        scores, state, weights = model.step(TARGET_IN[:, position], state, memory)
        torch.testing.assert_close(scores, expected[:, position], atol=1e-5, rtol=0)
        torch.testing.assert_close(weights, attention[:, position], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_scores_are_log_probabilities_over_the_predictable_entries(model: Rnn) -> None:
    memory, state = model.encode(SOURCE, LENGTH)
    scores, _, attention = model.step(TARGET_IN[:, 0], state, memory)
    assert scores.shape == (3, 9)
    torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(3))
    assert attention.shape == (3, 1, 1, 4)


@torch.inference_mode()
def test_padding_and_company_change_nothing(model: Rnn) -> None:
    memory, state = model.encode(SOURCE, LENGTH)
    for row, length in enumerate(LENGTH.tolist()):
        alone, alone_state = model.encode(SOURCE[row : row + 1, :length], LENGTH[row : row + 1])
        torch.testing.assert_close(memory.values[row, :length], alone.values[0], atol=1e-6, rtol=0)
        torch.testing.assert_close(state.hidden[row], alone_state.hidden[0], atol=1e-6, rtol=0)
        scores, _, _ = model.step(TARGET_IN[:, 1], state, memory)
        alone_scores, _, _ = model.step(TARGET_IN[row : row + 1, 1], alone_state, alone)
        torch.testing.assert_close(scores[row], alone_scores[0], atol=1e-6, rtol=0)


@torch.inference_mode()
def test_attention_on_padding_is_exactly_zero(model: Rnn) -> None:
    _, attention = model(SOURCE, LENGTH, TARGET_IN)
    real = torch.arange(4) < LENGTH.unsqueeze(1)
    assert torch.all(attention.movedim(4, 1)[~real] == 0.0)
    torch.testing.assert_close(attention.sum(dim=4), torch.ones(3, 5, 1, 1))


def test_every_weight_learns(model: Rnn) -> None:
    features, _ = model.train()(SOURCE, LENGTH, TARGET_IN)
    torch.log_softmax(model.output(features), dim=2)[..., 4].sum().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []


def test_preparing_for_export_changes_no_checkpoint(model: Rnn) -> None:
    before = list(model.state_dict())
    model.prepare_for_export()
    assert list(model.state_dict()) == before


@pytest.mark.parametrize(
    ("name", "value"), [("vocabulary", 0), ("decoder", -1), ("dropout", 1.0), ("dropout", -0.1), ("output", 13)]
)
def test_impossible_sizes_are_refused_with_their_value(name: str, value: float) -> None:
    settings = {"vocabulary": 12, "output": 9, name: value}
    with pytest.raises(ValueError, match=rf"{name} is {value}"):
        RnnConfig(**settings)  # pyright: ignore[reportArgumentType]  wrong on purpose

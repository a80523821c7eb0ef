"""The recurrent models: one computation, by steps or at once, alone or in company, for every context and cell."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import pytest
import torch

from regard.training.decoding.search import SearchConfig, search
from regard.training.models.rnn import FixedMemory, NoMemory, Rnn, RnnConfig, RnnMemory

SOURCE = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0], [11, 10, 3, 0]])
LENGTH = torch.tensor([4, 2, 3])
TARGET_IN = torch.tensor([[2, 4, 5, 6, 7], [2, 8, 4, 4, 5], [2, 6, 6, 5, 8]])


@torch.inference_mode()
def test_steps_give_what_the_whole_target_gives(rung: Rnn) -> None:
    features, attention = rung(SOURCE, LENGTH, TARGET_IN)
    expected = torch.log_softmax(rung.output(features), dim=2)
    memory, state = rung.encode(SOURCE, LENGTH)
    for position in range(TARGET_IN.shape[1]):
        scores, state, weights = rung.step(TARGET_IN[:, position], state, memory)
        torch.testing.assert_close(scores, expected[:, position], atol=1e-5, rtol=0)
        torch.testing.assert_close(weights, attention[:, position], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_scores_are_log_probabilities_over_the_predictable_entries(rung: Rnn) -> None:
    memory, state = rung.encode(SOURCE, LENGTH)
    scores, _, _ = rung.step(TARGET_IN[:, 0], state, memory)
    assert scores.shape == (3, 9)
    torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(3))


@torch.inference_mode()
def test_attention_has_one_layer_and_head_or_honestly_none(rung: Rnn) -> None:
    memory, state = rung.encode(SOURCE, LENGTH)
    _, _, attention = rung.step(TARGET_IN[:, 0], state, memory)
    axes = (1, 1, 4) if rung.config.context == "attention" else (0, 0, 0)
    assert attention.shape == (3, *axes)
    assert rung(SOURCE, LENGTH, TARGET_IN)[1].shape == (3, 5, *axes)


@torch.inference_mode()
def test_memory_is_what_is_really_kept(rung: Rnn) -> None:
    memory, _ = rung.encode(SOURCE, LENGTH)
    kinds = {"none": NoMemory, "fixed": FixedMemory, "attention": RnnMemory}
    assert type(memory) is kinds[rung.config.context]
    if isinstance(memory, FixedMemory):
        assert memory.context.shape == (3, 10)


@torch.inference_mode()
def test_padding_and_company_change_nothing(rung: Rnn) -> None:
    memory, state = rung.encode(SOURCE, LENGTH)
    scores, _, _ = rung.step(TARGET_IN[:, 1], state, memory)
    for row, length in enumerate(LENGTH.tolist()):
        alone, alone_state = rung.encode(SOURCE[row : row + 1, :length], LENGTH[row : row + 1])
        for part, alone_part in zip(state, alone_state, strict=True):
            torch.testing.assert_close(part[row], alone_part[0], atol=1e-6, rtol=0)
        alone_scores, _, _ = rung.step(TARGET_IN[row : row + 1, 1], alone_state, alone)
        torch.testing.assert_close(scores[row], alone_scores[0], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_attention_on_padding_is_exactly_zero(model: Rnn) -> None:
    _, attention = model(SOURCE, LENGTH, TARGET_IN)
    real = torch.arange(4) < LENGTH.unsqueeze(1)
    assert torch.all(attention.movedim(4, 1)[~real] == 0.0)
    torch.testing.assert_close(attention.sum(dim=4), torch.ones(3, 5, 1, 1))


def test_first_state_comes_from_both_readers_and_with_attention_from_the_backward_one_alone(rung: Rnn) -> None:
    _, state = rung.encode(SOURCE, LENGTH)
    sum((part.square().sum() for part in state), torch.zeros(())).backward()
    weights = {name: weight.grad for name, weight in rung.encoder.named_parameters()}
    reached = {
        name.endswith("_reverse") for name, gradient in weights.items() if gradient is not None and gradient.any()
    }
    assert reached == ({True} if rung.config.context == "attention" else {True, False})


@torch.inference_mode()
def test_what_the_first_state_shows_is_as_bounded_as_what_any_state_shows(rung: Rnn) -> None:
    rung.bridge.weight.mul_(100.0)
    _, state = rung.encode(SOURCE, LENGTH)
    assert state.hidden.abs().max() <= 1.0


@torch.inference_mode()
def test_fixed_context_is_what_each_reader_ends_with(rung: Rnn) -> None:
    memory, _ = rung.encode(SOURCE, LENGTH)
    if isinstance(memory, FixedMemory):
        states, _ = rung.encoder(rung.embedding(SOURCE) * 8**0.5, LENGTH)
        expected = torch.cat((states[torch.arange(3), LENGTH - 1, :5], states[:, 0, 5:]), dim=1)
        torch.testing.assert_close(memory.context, expected)


def test_every_weight_learns(rung: Rnn) -> None:
    features, _ = rung.train()(SOURCE, LENGTH, TARGET_IN)
    torch.log_softmax(rung.output(features), dim=2)[..., 4].sum().backward()
    assert [name for name, weight in rung.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@pytest.mark.parametrize("beam_size", [1, 3])
def test_rows_are_searched_in_company_as_alone(rung: Rnn, beam_size: int) -> None:
    config = SearchConfig(beam_size=beam_size, max_length=6)
    together = search(rung, SOURCE, LENGTH, config)
    axes = (1, 1) if rung.config.context == "attention" else (0, 0)
    for row, length in enumerate(LENGTH.tolist()):
        (alone,) = search(rung, SOURCE[row : row + 1, :length], LENGTH[row : row + 1], config)
        assert [found.tokens for found in together[row]] == [found.tokens for found in alone]
        for found in together[row]:
            assert found.attention.shape == (len(found.tokens), *axes, length if axes[0] else 0)


@torch.no_grad()
def test_linear_readout_leaves_out_what_squashes_features() -> None:
    torch.manual_seed(3)
    linear, squashed = (
        Rnn(RnnConfig(vocabulary=12, output=9, embedding=8, encoder=5, decoder=7, readout=readout)).eval()
        for readout in ("linear", "mlp")
    )
    linear.readout.weight.mul_(10.0)
    squashed.load_state_dict(linear.state_dict())
    features, _ = linear(SOURCE, LENGTH, TARGET_IN)
    assert features.abs().max() > 1.0
    torch.testing.assert_close(squashed(SOURCE, LENGTH, TARGET_IN)[0], torch.tanh(features))


def test_forget_gates_begin_open() -> None:
    model = Rnn(RnnConfig(vocabulary=12, output=9, embedding=8, encoder=5, decoder=7, cell="lstm"))
    weights = dict(model.named_parameters())
    cell = weights["cell.token.bias"] + weights["cell.recurrent.bias"]
    encoder = weights["encoder.lstm.bias_ih_l0"] + weights["encoder.lstm.bias_hh_l0"]
    torch.testing.assert_close(cell[7:14], torch.ones(7))
    torch.testing.assert_close(encoder[5:10], torch.ones(5))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@torch.inference_mode()
def test_cell_computes_what_torch_computes(cell: str) -> None:
    torch.manual_seed(3)
    model = Rnn(RnnConfig(vocabulary=12, output=9, embedding=8, encoder=5, decoder=7, context="none", cell=cell)).eval()  # pyright: ignore[reportArgumentType]  one of the two
    theirs = (torch.nn.GRU if cell == "gru" else torch.nn.LSTM)(8, 7, batch_first=True)
    ours = model.cell
    names = ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")
    weights = (ours.token.weight, ours.token.bias, ours.recurrent.weight, ours.recurrent.bias)
    theirs.load_state_dict(dict(zip(names, weights, strict=True)))
    inputs = torch.randn(3, 4, 8)
    expected, _ = theirs(inputs)
    state = model.cell.unit.state(*(torch.zeros(3, 7) for _ in model.cell.unit.state._fields))
    for position in range(4):
        state = model.cell(model.cell.token(inputs[:, position]), state)
        torch.testing.assert_close(state.hidden, expected[:, position], atol=1e-6, rtol=0)


def test_default_model_has_the_parameters_of_published_checkpoints(model: Rnn) -> None:
    assert [name for name, _ in model.named_parameters()] == [
        "embedding.weight",
        *(
            f"encoder.gru.{part}{end}"
            for end in ("_l0", "_l0_reverse")
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ),
        *(f"{name}.{part}" for name in ("bridge", "attention.query") for part in ("weight", "bias")),
        "attention.key.weight",
        "attention.energy.weight",
        "cell.token.weight",
        "cell.token.bias",
        "cell.context.weight",
        "cell.recurrent.weight",
        "cell.recurrent.bias",
        "readout.weight",
        "readout.bias",
        "output.bias",
    ]


def test_preparing_for_export_changes_no_checkpoint(rung: Rnn) -> None:
    before = list(rung.state_dict())
    rung.prepare_for_export()
    assert list(rung.state_dict()) == before


@pytest.mark.parametrize(
    ("name", "value"), [("vocabulary", 0), ("decoder", -1), ("dropout", 1.0), ("dropout", -0.1), ("output", 13)]
)
def test_impossible_sizes_are_refused_with_their_value(name: str, value: float) -> None:
    settings = {"vocabulary": 12, "output": 9, name: value}
    with pytest.raises(ValueError, match=rf"{name} is {value}"):
        RnnConfig(**settings)  # pyright: ignore[reportArgumentType]  wrong on purpose


@pytest.mark.parametrize(
    ("name", "choices"),
    [("context", "none, fixed, attention"), ("cell", "gru, lstm"), ("readout", "mlp, linear")],
)
def test_unknown_kind_is_refused_with_those_there_are(name: str, choices: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} is 'several', but it is one of {choices}\."):
        RnnConfig(vocabulary=12, output=9, **{name: "several"})  # pyright: ignore[reportArgumentType]  wrong on purpose

"""Positional encodings: without them attention sees a set, with them a sequence."""

# torch types manual_seed and grad only in part.
# pyright: reportUnknownMemberType=false

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.training.models.attention import MultiHeadAttention
from regard.training.models.positions import Combination, Kind, Positions, sinusoids

COMBINATIONS: tuple[Combination, ...] = ("add", "concatenate")
CODED = [(kind, combination) for kind in ("sinusoidal", "learned") for combination in COMBINATIONS]


def encoding(kind: Kind, combination: Combination = "add", longest: int = 9) -> Positions:
    torch.manual_seed(1)
    return Positions(dim=8, kind=kind, combination=combination, longest=longest)


def inputs() -> Tensor:
    torch.manual_seed(2)
    return torch.randn(2, 5, 8)


@torch.inference_mode()
def shuffled_and_not(positions: Positions) -> tuple[Tensor, Tensor]:
    """Return what self-attention makes of reversed inputs, put back in order, and of the inputs."""
    torch.manual_seed(3)
    layer = MultiHeadAttention(dim=8, heads=2)
    results: list[Tensor] = []
    for given_inputs in (inputs().flip(1), inputs()):
        marked = positions(given_inputs, torch.arange(5))
        results.append(layer(marked, *layer.project(marked), None)[0])
    return results[0].flip(1), results[1]


@pytest.mark.parametrize(("kind", "combination"), CODED)
def test_self_attention_with_positions_is_not_equivariant_to_permutations(kind: Kind, combination: Combination) -> None:
    reversed_result, result = shuffled_and_not(encoding(kind, combination))
    assert (reversed_result - result).abs().max().item() > 1e-3


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_self_attention_without_positions_stays_equivariant(combination: Combination) -> None:
    reversed_result, result = shuffled_and_not(encoding("none", combination))
    torch.testing.assert_close(reversed_result, result, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("kind", "combination"), CODED)
@torch.inference_mode()
def test_a_mark_tells_the_position_and_not_the_place_in_the_tensor(kind: Kind, combination: Combination) -> None:
    positions = encoding(kind, combination)
    together = positions(inputs(), torch.arange(5))
    alone = positions(inputs()[:, 3:4], torch.tensor([[3], [3]]))
    torch.testing.assert_close(alone, together[:, 3:4])


@pytest.mark.parametrize(("kind", "combination"), CODED)
@torch.inference_mode()
def test_positions_beyond_the_longest_share_the_last_code(kind: Kind, combination: Combination) -> None:
    marked = encoding(kind, combination, longest=4)(inputs()[:, :1].expand(2, 5, 8), torch.arange(5))
    assert torch.equal(marked[:, 4], marked[:, 3])
    assert not torch.equal(marked[:, 3], marked[:, 2])


@torch.inference_mode()
def test_added_codes_are_added() -> None:
    marked = encoding("sinusoidal")(inputs(), torch.arange(5))
    torch.testing.assert_close(marked, inputs() + sinusoids(9, 8)[:5])


@torch.inference_mode()
def test_concatenated_codes_are_projected_to_the_size_of_inputs() -> None:
    positions = encoding("sinusoidal", "concatenate")
    codes = sinusoids(9, 8)[:5].expand(2, 5, 8)
    expected = torch.cat((inputs(), codes), dim=2) @ positions.joined.weight.T + positions.joined.bias
    torch.testing.assert_close(positions(inputs(), torch.arange(5)), expected)


def test_no_positions_leave_inputs_as_they_are_and_have_no_weights() -> None:
    positions = encoding("none", "concatenate")
    assert torch.equal(positions(inputs(), torch.arange(5)), inputs())
    assert list(positions.state_dict()) == []


def test_only_learned_codes_are_kept_in_a_checkpoint() -> None:
    assert list(encoding("sinusoidal").state_dict()) == []
    assert list(encoding("learned").state_dict()) == ["learned"]


def test_learned_codes_learn_where_they_were_used_and_nowhere_else() -> None:
    positions = encoding("learned")
    positions(inputs(), torch.arange(5)).square().sum().backward()
    assert positions.learned.grad is not None
    assert positions.learned.grad.any(dim=1).tolist() == [True] * 5 + [False] * 4


def test_waves_grow_from_two_pi_to_ten_thousand_times_that() -> None:
    codes = sinusoids(100, 6).double()
    places = torch.arange(100, dtype=torch.float64)
    for column, rate in enumerate((1.0, 1.0 / 100.0, 1.0 / 10000.0)):
        torch.testing.assert_close(codes[:, column], torch.sin(places * rate), atol=1e-4, rtol=0)
        torch.testing.assert_close(codes[:, column + 3], torch.cos(places * rate), atol=1e-4, rtol=0)


@settings(max_examples=50, deadline=None)
@given(first=st.integers(0, 400), second=st.integers(0, 400), distance=st.integers(0, 100), dim=st.integers(2, 16))
def test_the_product_of_two_sinusoidal_codes_depends_on_their_distance_alone(
    first: int, second: int, distance: int, dim: int
) -> None:
    codes = sinusoids(512, 2 * dim)
    products = [(codes[start] @ codes[start + distance]).item() for start in (first, second)]
    assert products[0] == pytest.approx(products[1], abs=1e-2)


@settings(max_examples=20, deadline=None)
@given(dim=st.integers(1, 17))
def test_sinusoidal_codes_have_any_size_and_start_alike(dim: int) -> None:
    codes = sinusoids(3, dim)
    assert codes.shape == (3, dim)
    half = math.ceil(dim / 2)
    assert codes[0].tolist() == [0.0] * half + [1.0] * (dim - half)


@pytest.mark.parametrize(("name", "value"), [("kind", "rotary"), ("combination", "multiply")])
def test_unknown_choices_are_refused_with_what_there_is(name: str, value: str) -> None:
    settings = {"kind": "learned", "combination": "add", name: value}
    with pytest.raises(ValueError, match=rf"is '{value}', but it is one of \w+, \w+"):
        Positions(dim=8, **settings)  # pyright: ignore[reportArgumentType]  wrong on purpose


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_codes_of_no_size_are_refused(kind: Kind) -> None:
    with pytest.raises(ValueError, match="dim is 0, but it is at least 1"):
        Positions(dim=0, kind=kind)


def test_no_positions_to_tell_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="longest is 0"):
        encoding("learned", longest=0)

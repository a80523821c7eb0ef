"""Attention layers by their defining properties, and against torch's own on the same weights."""

# torch types manual_seed, backward and grad only in part.
# pyright: reportUnknownMemberType=false

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.training.models.attention import (
    AdditiveAttention,
    KeyValueAttention,
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    masked_softmax,
    scaled_dot_product,
)

SEEDS = st.integers(0, 2**31 - 1)
LENGTHS = st.integers(1, 7)
# One source of three is real whole, one in part, one only at its end.
REAL = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 1]], dtype=torch.bool)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def self_attention(value_dim: int = 4) -> SelfAttention:
    torch.manual_seed(1)
    return SelfAttention(dim=6, query_dim=5, value_dim=value_dim)


def multi_head(heads: int = 2, dim: int = 8) -> MultiHeadAttention:
    torch.manual_seed(2)
    return MultiHeadAttention(dim=dim, heads=heads)


def look(layer: MultiHeadAttention, inputs: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    return layer(inputs, *layer.project(memory), mask)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, queries=LENGTHS, sources=LENGTHS)
def test_rows_sum_to_one_over_what_may_be_seen_and_are_exactly_zero_elsewhere(
    seed: int, queries: int, sources: int
) -> None:
    mask = normal(seed, 2, queries, sources) > 0.0
    weights = masked_softmax(10.0 * normal(seed + 1, 2, queries, sources), mask)
    assert torch.all(weights[~mask] == 0.0)
    torch.testing.assert_close(weights.sum(dim=2), mask.any(dim=2).float())


def test_a_mask_leaves_the_rest_as_if_the_masked_positions_were_not_there() -> None:
    energy = normal(3, 4, 7)
    mask = torch.tensor([True, False, True, True, False, False, True])
    torch.testing.assert_close(masked_softmax(energy, mask)[:, mask], torch.softmax(energy[:, mask], dim=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_row_that_may_see_nothing_gets_zeros_and_finite_gradients(dtype: torch.dtype) -> None:
    queries, keys, values = (normal(seed, 1, 2, 4).to(dtype).requires_grad_() for seed in (1, 2, 3))
    context, weights = scaled_dot_product(queries, keys, values, torch.tensor([[[False, False], [True, False]]]))
    assert torch.all(weights[0, 0] == 0.0)
    assert torch.all(context[0, 0] == 0.0)
    (context.square().sum() + weights.square().sum()).backward()
    for tensor in (queries, keys, values):
        assert tensor.grad is not None
        assert torch.all(torch.isfinite(tensor.grad))
    assert queries.grad is not None
    assert torch.all(queries.grad[0, 0] == 0.0)


def test_many_heads_survive_a_memory_of_padding_alone() -> None:
    layer = multi_head()
    memory = normal(4, 1, 3, 8).requires_grad_()
    context, weights = look(layer, normal(5, 1, 2, 8), memory, torch.zeros(1, 1, 1, 3, dtype=torch.bool))
    context.sum().backward()
    assert torch.all(weights == 0.0)
    torch.testing.assert_close(context, layer.output.bias.expand(1, 2, 8))
    for gradient in (memory.grad, *(weight.grad for weight in layer.parameters())):
        assert gradient is None or torch.all(torch.isfinite(gradient))


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, length=LENGTHS)
@torch.inference_mode()
def test_self_attention_is_equivariant_to_permutations(seed: int, length: int) -> None:
    inputs = normal(seed, 2, length, 6)
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    layer = self_attention()
    context, weights = layer(inputs)
    shuffled_context, shuffled_weights = layer(inputs[:, order])
    torch.testing.assert_close(shuffled_context, context[:, order], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(shuffled_weights, weights[:, order][:, :, order], atol=1e-6, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, length=LENGTHS)
@torch.inference_mode()
def test_multi_head_self_attention_is_equivariant_to_permutations(seed: int, length: int) -> None:
    inputs = normal(seed, 2, length, 8)
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    layer = multi_head()
    context, weights = look(layer, inputs, inputs, None)
    shuffled_context, shuffled_weights = look(layer, inputs[:, order], inputs[:, order], None)
    torch.testing.assert_close(shuffled_context, context[:, order], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(shuffled_weights, weights[:, :, order][..., order], atol=1e-6, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, length=LENGTHS)
@torch.inference_mode()
def test_what_a_query_finds_does_not_depend_on_the_order_of_the_memory(seed: int, length: int) -> None:
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    memory, mask = normal(seed, 1, length, 6), normal(seed + 1, 1, length) > -0.5
    query = normal(seed + 2, 1, 1, 5)
    torch.manual_seed(6)
    layer = KeyValueAttention(query_dim=5, memory_dim=6, value_dim=4)
    context, weights = layer(query, memory, mask.unsqueeze(1))
    shuffled_context, shuffled_weights = layer(query, memory[:, order], mask[:, order].unsqueeze(1))
    torch.testing.assert_close(shuffled_context, context, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(shuffled_weights, weights[:, :, order], atol=1e-6, rtol=1e-5)
    additive = AdditiveAttention(query_dim=5, memory_dim=6, dim=3)
    context, _ = additive(query[:, 0], additive.project(memory), memory, mask)
    memory, mask = memory[:, order], mask[:, order]
    shuffled_context, _ = additive(query[:, 0], additive.project(memory), memory, mask)
    torch.testing.assert_close(shuffled_context, context, atol=1e-6, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, length=st.integers(2, 7), data=st.data())
@torch.inference_mode()
def test_the_future_does_not_change_the_past_by_a_bit(seed: int, length: int, data: st.DataObject) -> None:
    now = data.draw(st.integers(1, length - 1))
    inputs = normal(seed, 2, length, 8)
    changed = inputs.clone()
    changed[:, now:] = 100.0 * normal(seed + 1, 2, length - now, 8)
    layer, mask = multi_head(), causal_mask(length)
    context, weights = look(layer, inputs, inputs, mask)
    changed_context, changed_weights = look(layer, changed, changed, mask)
    assert torch.equal(changed_context[:, :now], context[:, :now])
    assert torch.equal(changed_weights[:, :, :now], weights[:, :, :now])
    assert not torch.equal(changed_context[:, now:], context[:, now:])


def test_no_gradient_comes_from_the_past_to_the_future() -> None:
    inputs = normal(7, 1, 5, 6).requires_grad_()
    context, _ = self_attention()(inputs, causal_mask(5))
    (gradient,) = torch.autograd.grad(context[:, 2].sum(), inputs)
    assert torch.all(gradient[:, 3:] == 0.0)
    assert torch.all(gradient[:, :3].abs().sum(dim=2) > 0.0)


@torch.inference_mode()
def test_one_head_is_attention_with_keys_and_values_of_its_weights() -> None:
    layer = multi_head(heads=1)
    single = KeyValueAttention(query_dim=8, memory_dim=8, value_dim=8)
    nn.init.zeros_(layer.key_value.bias)
    key, value = layer.key_value.weight.chunk(2)
    single.key.weight.copy_(key)
    single.value.weight.copy_(value)
    inputs, memory = normal(8, 3, 4, 8), normal(9, 3, 5, 8)
    context, weights = look(layer, inputs, memory, REAL[:, None, None])
    found, single_weights = single(layer.query(inputs), memory, REAL[:, None])
    torch.testing.assert_close(weights, single_weights.unsqueeze(1))
    torch.testing.assert_close(context, layer.output(found))


@torch.inference_mode()
def test_every_head_looks_with_its_own_chunk() -> None:
    layer = multi_head(heads=4)
    inputs, memory = normal(8, 3, 4, 8), normal(9, 3, 5, 8)
    context, weights = look(layer, inputs, memory, None)
    queries = layer.query(inputs).chunk(4, dim=2)
    keys, values = (part.chunk(4, dim=2) for part in layer.key_value(memory).chunk(2, dim=2))
    heads = [scaled_dot_product(*parts) for parts in zip(queries, keys, values, strict=True)]
    torch.testing.assert_close(weights, torch.stack([head[1] for head in heads], dim=1))
    torch.testing.assert_close(context, layer.output(torch.cat([head[0] for head in heads], dim=2)))


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, queries=LENGTHS, sources=LENGTHS, masked=st.booleans())
@torch.inference_mode()
def test_products_find_what_those_of_torch_find(seed: int, queries: int, sources: int, masked: bool) -> None:
    query, key, value = (
        normal(seed, 2, 3, queries, 4),
        normal(seed + 1, 2, 3, sources, 4),
        normal(seed, 2, 3, sources, 6),
    )
    mask = normal(seed + 2, 2, 1, queries, sources) > 0.0 if masked else None
    if mask is not None:
        mask[..., 0] = True  # torch leaves open what a row without a position is
    context, _ = scaled_dot_product(query, key, value, mask)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(context, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def of_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return torch's own layer with the weights of this one, biases too."""
    dim = layer.query.weight.shape[0]
    theirs = nn.MultiheadAttention(dim, layer.heads, batch_first=True)
    nn.init.normal_(layer.query.bias)
    nn.init.normal_(layer.key_value.bias)
    theirs.in_proj_weight.copy_(torch.cat((layer.query.weight, layer.key_value.weight)))
    theirs.in_proj_bias.copy_(torch.cat((layer.query.bias, layer.key_value.bias)))
    theirs.out_proj.load_state_dict(layer.output.state_dict())
    return theirs


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_heads_find_what_those_of_torch_find_in_a_padded_memory(heads: int) -> None:
    layer = multi_head(heads)
    theirs = of_torch(layer)
    inputs, memory = normal(8, 3, 4, 8), normal(9, 3, 5, 8)
    context, weights = look(layer, inputs, memory, REAL[:, None, None])
    expected = theirs(inputs, memory, memory, key_padding_mask=~REAL, average_attn_weights=False)
    torch.testing.assert_close(context, expected[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights, expected[1], atol=1e-6, rtol=1e-5)


def test_heads_find_what_those_of_torch_find_in_a_padded_past() -> None:
    layer = multi_head()
    theirs = of_torch(layer)
    inputs, real = normal(8, 2, 5, 8), REAL[:2]
    context, weights = look(layer, inputs, inputs, causal_mask(5) & real[:, None, None])
    expected = theirs(
        inputs, inputs, inputs, key_padding_mask=~real, attn_mask=~causal_mask(5), average_attn_weights=False
    )
    torch.testing.assert_close(context, expected[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights, expected[1], atol=1e-6, rtol=1e-5)


def test_heads_learn_from_the_same_gradients_as_those_of_torch() -> None:
    layer = multi_head()
    theirs = of_torch(layer)
    inputs, target = normal(8, 3, 5, 8), normal(9, 3, 5, 8)
    (look(layer, inputs, inputs, REAL[:, None, None])[0] * target).sum().backward()
    (theirs(inputs, inputs, inputs, key_padding_mask=~REAL)[0] * target).sum().backward()
    gradient = torch.cat([part.weight.grad for part in (layer.query, layer.key_value) if part.weight.grad is not None])
    torch.testing.assert_close(gradient, theirs.in_proj_weight.grad, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_energies_of_random_vectors_have_unit_variance_whatever_their_size() -> None:
    for dim in (16, 64, 1024):
        queries, keys = normal(10, 400, dim), normal(11, 400, dim)
        # With values that are the unit matrix the logarithms of weights tell energies up to a number for each row.
        _, weights = scaled_dot_product(queries.double(), keys.double(), torch.eye(400).double())
        assert weights.log().var(dim=1).mean().item() == pytest.approx(1.0, abs=0.1)


@torch.inference_mode()
def test_products_are_their_definition() -> None:
    query, keys, values = normal(12, 1, 3), normal(13, 4, 3), normal(14, 4, 2)
    context, weights = scaled_dot_product(query, keys, values)
    energies = [(query[0] * key).sum().item() / math.sqrt(3) for key in keys]
    expected = torch.softmax(torch.tensor([energies]), dim=1)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(context, expected @ values)


@torch.inference_mode()
def test_additive_attention_is_its_definition() -> None:
    torch.manual_seed(3)
    layer = AdditiveAttention(query_dim=5, memory_dim=4, dim=3)
    query, memory = normal(15, 1, 5), normal(16, 1, 6, 4)
    context, weights = layer(query, layer.project(memory), memory, torch.ones(1, 6, dtype=torch.bool))
    w, b, u, v = layer.query.weight, layer.query.bias, layer.key.weight, layer.energy.weight[0]
    energies = torch.stack([v @ torch.tanh(w @ query[0] + b + u @ state) for state in memory[0]])
    expected = torch.softmax(energies, dim=0)
    torch.testing.assert_close(weights[0], expected)
    torch.testing.assert_close(
        context[0], sum((a * h for a, h in zip(expected, memory[0], strict=True)), torch.zeros(4))
    )


@torch.inference_mode()
def test_many_queries_of_additive_attention_find_what_each_finds_alone() -> None:
    torch.manual_seed(3)
    layer = AdditiveAttention(query_dim=5, memory_dim=4, dim=3)
    queries, memory = normal(15, 2, 3, 5), normal(16, 2, 6, 4)
    keys = layer.project(memory)
    contexts, weights = layer.ask_many(queries, keys, memory)
    for place in range(3):
        context, alone = layer(queries[:, place], keys, memory, None)
        torch.testing.assert_close(contexts[:, place], context)
        torch.testing.assert_close(weights[:, place], alone)


@pytest.mark.parametrize("value_dim", [1, 9])
def test_values_have_any_size(value_dim: int) -> None:
    context, weights = self_attention(value_dim)(normal(17, 2, 3, 6))
    assert context.shape == (2, 3, value_dim)
    assert weights.shape == (2, 3, 3)


def test_keys_index_and_values_carry() -> None:
    layer = KeyValueAttention(query_dim=5, memory_dim=6, value_dim=4)
    queries, memory = normal(18, 1, 2, 5), normal(19, 1, 3, 6)
    context, weights = layer(queries, memory)
    nn.init.ones_(layer.value.weight)
    other_context, other_weights = layer(queries, memory)
    assert torch.equal(other_weights, weights)
    assert not torch.allclose(other_context, context)


def test_a_memory_of_another_size_is_asked_through_its_own_weights() -> None:
    layer = MultiHeadAttention(dim=8, heads=2, memory_dim=3)
    context, weights = look(layer, normal(20, 2, 4, 8), normal(21, 2, 5, 3), None)
    assert context.shape == (2, 4, 8)
    assert weights.shape == (2, 2, 4, 5)


def test_queries_that_keys_cannot_answer_are_refused_with_both_sizes() -> None:
    with pytest.raises(ValueError, match=r"D_Q = 5 and keys 6.*W_K \[6, 5\]"):
        scaled_dot_product(normal(1, 2, 5), normal(2, 3, 6), normal(2, 3, 6))


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        (AdditiveAttention, {"query_dim": 5, "memory_dim": 6, "dim": 3}),
        (KeyValueAttention, {"query_dim": 5, "memory_dim": 6, "value_dim": 4}),
        (SelfAttention, {"dim": 6, "query_dim": 5, "value_dim": 4}),
        (MultiHeadAttention, {"dim": 8, "memory_dim": 6}),
    ],
)
@pytest.mark.parametrize("value", [0, -4])
def test_layers_of_no_size_are_refused_by_its_name(layer: type[nn.Module], sizes: dict[str, int], value: int) -> None:
    others = {"heads": 2} if layer is MultiHeadAttention else {}
    for name in sizes:
        with pytest.raises(ValueError, match=rf"^{name} is {value}, but it is at least 1\.$"):
            layer(**{**others, **sizes, name: value})


@pytest.mark.parametrize("heads", [3, 0, -2])
def test_heads_that_do_not_divide_the_size_are_refused_with_both(heads: int) -> None:
    with pytest.raises(ValueError, match=rf"dim is 8 and heads {heads}"):
        MultiHeadAttention(dim=8, heads=heads)

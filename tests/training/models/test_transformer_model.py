"""The Transformer: one computation, by steps or at once, alone or in company, in every variant of its config."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import pytest
import torch

from regard.training.models.transformer import Transformer, TransformerConfig

SOURCE = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0], [11, 10, 3, 0]])
LENGTH = torch.tensor([4, 2, 3])
TARGET_IN = torch.tensor([[2, 4, 5, 6, 7], [2, 8, 4, 4, 5], [2, 6, 6, 5, 8]])

BASE: dict[str, Any] = {
    "vocabulary": 12,
    "output": 9,
    "dim": 8,
    "heads": 2,
    "feed_forward": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "pre norm, sinusoidal added": {},
    "post norm": {"norm": "post"},
    "learned added": {"positions": "learned"},
    "sinusoidal concatenated": {"combination": "concatenate"},
    "learned concatenated, post norm": {"positions": "learned", "combination": "concatenate", "norm": "post"},
    "no positions": {"positions": "none"},
    "attention alone": {"feed_forward": 0},
    "attention alone, post norm": {"feed_forward": 0, "norm": "post"},
    "deep encoder, shallow decoder": {"encoder_layers": 4, "decoder_layers": 1},
    "one head": {"heads": 1},
    "positions beyond the longest": {"longest": 2},
}


def configure(**changes: Any) -> TransformerConfig:
    settings: dict[str, Any] = {**BASE, **changes}
    return TransformerConfig(**settings)


def build(**changes: Any) -> Transformer:
    torch.manual_seed(3)
    return Transformer(configure(**changes)).eval()


@pytest.fixture(params=list(VARIANTS.values()), ids=list(VARIANTS))
def transformer(request: pytest.FixtureRequest) -> Transformer:
    """An untrained model of 12 entries, 9 of them predictable, in every variant."""
    return build(**request.param)


@torch.inference_mode()
def test_steps_give_what_the_whole_target_gives(transformer: Transformer) -> None:
    features, attention = transformer(SOURCE, LENGTH, TARGET_IN)
    expected = torch.log_softmax(transformer.output(features), dim=2)
    memory, state = transformer.encode(SOURCE, LENGTH)
    for position in range(TARGET_IN.shape[1]):
        scores, state, weights = transformer.step(TARGET_IN[:, position], state, memory)
        torch.testing.assert_close(scores, expected[:, position], atol=1e-5, rtol=0)
        torch.testing.assert_close(weights, attention[:, position], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_padding_and_company_change_nothing(transformer: Transformer) -> None:
    features, attention = transformer(SOURCE, LENGTH, TARGET_IN)
    for row, length in enumerate(LENGTH.tolist()):
        alone, alone_attention = transformer(
            SOURCE[row : row + 1, :length], LENGTH[row : row + 1], TARGET_IN[row : row + 1]
        )
        torch.testing.assert_close(features[row], alone[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(attention[row, ..., :length], alone_attention[0], atol=1e-6, rtol=0)


@torch.inference_mode()
def test_what_stands_on_padding_changes_nothing_by_a_bit(transformer: Transformer) -> None:
    other = torch.where(torch.arange(4) < LENGTH.unsqueeze(1), SOURCE, 9)
    features, attention = transformer(SOURCE, LENGTH, TARGET_IN)
    other_features, other_attention = transformer(other, LENGTH, TARGET_IN)
    assert torch.equal(other_features, features)
    assert torch.equal(other_attention, attention)


@torch.inference_mode()
def test_later_tokens_do_not_change_earlier_features_by_a_bit(transformer: Transformer) -> None:
    features, _ = transformer(SOURCE, LENGTH, TARGET_IN)
    other = TARGET_IN.clone()
    other[:, 3:] = 7
    other_features, _ = transformer(SOURCE, LENGTH, other)
    assert torch.equal(other_features[:, :3], features[:, :3])
    assert not torch.allclose(other_features[:, 3:], features[:, 3:])


@torch.inference_mode()
def test_attention_has_every_layer_and_head_and_none_on_padding(transformer: Transformer) -> None:
    _, attention = transformer(SOURCE, LENGTH, TARGET_IN)
    config = transformer.config
    assert attention.shape == (3, 5, config.decoder_layers, config.heads, 4)
    real = torch.arange(4) < LENGTH.unsqueeze(1)
    assert torch.all(attention.movedim(4, 1)[~real] == 0.0)
    torch.testing.assert_close(attention.sum(dim=4), torch.ones(attention.shape[:4]))


@torch.inference_mode()
def test_scores_are_log_probabilities_over_the_predictable_entries(transformer: Transformer) -> None:
    memory, state = transformer.encode(SOURCE, LENGTH)
    scores, _, attention = transformer.step(TARGET_IN[:, 0], state, memory)
    assert scores.shape == (3, 9)
    torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(3))
    assert attention.shape == (3, transformer.config.decoder_layers, transformer.config.heads, 4)


def test_every_weight_learns(transformer: Transformer) -> None:
    features, _ = transformer.train()(SOURCE, LENGTH, TARGET_IN)
    torch.log_softmax(transformer.output(features), dim=2)[..., 4].sum().backward()
    idle = [name for name, weight in transformer.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert idle == []


@torch.inference_mode()
def test_order_of_the_source_matters_through_positions_alone() -> None:
    source, length = torch.tensor([[5, 6, 7, 3]]), torch.tensor([4])
    for positions, matters in (("none", False), ("sinusoidal", True), ("learned", True)):
        model = build(positions=positions)
        features, _ = model(source, length, TARGET_IN[:1])
        other, _ = model(source[:, [2, 0, 3, 1]], length, TARGET_IN[:1])
        assert torch.allclose(other, features, atol=1e-5) is not matters


@torch.inference_mode()
def test_positions_beyond_the_longest_are_decoded_as_the_last() -> None:
    model = build(longest=2, positions="learned")
    memory, state = model.encode(SOURCE, LENGTH)
    for _ in range(6):
        scores, state, _ = model.step(TARGET_IN[:, 1], state, memory)
        assert torch.all(torch.isfinite(scores))


def test_source_target_and_output_share_one_tensor() -> None:
    model = build()
    assert model.output.weight.data_ptr() == model.embedding.weight.data_ptr()
    vocabulary_wide = [name for name, weight in model.named_parameters() if weight.shape[0] == 12]
    assert vocabulary_wide == ["embedding.weight"]


def test_parameters_are_as_many_as_the_sizes_say() -> None:
    dim, hidden, norm = 8, 16, 2 * 8
    attention = 4 * (dim * dim + dim)
    feed_forward = 2 * dim * hidden + hidden + dim
    encoder = 2 * (attention + feed_forward + 2 * norm)
    decoder = 2 * (2 * attention + feed_forward + 3 * norm)
    expected = 12 * dim + 9 + encoder + decoder + 2 * norm
    assert sum(weight.numel() for weight in build().parameters()) == expected
    assert sum(weight.numel() for weight in build(norm="post").parameters()) == expected - 2 * norm


@torch.inference_mode()
def test_post_norm_features_are_normalised_by_the_last_layer_and_pre_norm_ones_by_the_last_norm() -> None:
    for norm in ("pre", "post"):
        features, _ = build(norm=norm)(SOURCE, LENGTH, TARGET_IN)
        torch.testing.assert_close(features.mean(dim=2), torch.zeros(3, 5), atol=1e-5, rtol=0)
        torch.testing.assert_close(features.var(dim=2, correction=0), torch.ones(3, 5), atol=1e-2, rtol=0)


def test_preparing_for_export_changes_no_checkpoint() -> None:
    model = build()
    before = list(model.state_dict())
    model.prepare_for_export()
    assert list(model.state_dict()) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocabulary", 0),
        ("output", 13),
        ("dim", 0),
        ("heads", 0),
        ("feed_forward", -1),
        ("encoder_layers", 0),
        ("decoder_layers", 0),
        ("longest", 0),
        ("dropout", 1.0),
        ("dropout", -0.1),
    ],
)
def test_impossible_sizes_are_refused_with_their_value(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is {value}"):
        configure(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("norm", "sandwich", "pre, post"),
        ("positions", "rotary", "sinusoidal, learned, none"),
        ("combination", "multiply", "add, concatenate"),
    ],
)
def test_unknown_choices_are_refused_by_the_config_with_what_there_is(name: str, value: str, known: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is '{value}', but it is one of {known}\.$"):
        configure(**{name: value})


def test_a_size_that_heads_do_not_divide_is_refused_by_the_config_with_both() -> None:
    with pytest.raises(ValueError, match="dim is 8 and heads 3"):
        configure(heads=3)


def test_learned_positions_begin_as_large_as_embeddings_before_these_are_scaled() -> None:
    torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType]  half typed
    config = TransformerConfig(vocabulary=400, output=300, dim=64, positions="learned")
    model = Transformer(config)
    for table in (model.positions.learned, model.embedding.weight):
        assert table.std().item() == pytest.approx(64**-0.5, rel=0.03)

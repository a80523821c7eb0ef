"""Captioners: what they attend to, how they begin, and that a caption step by step is the caption at once."""

# torch types manual_seed and tolist only in part.
# pyright: reportUnknownMemberType=false

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.training.models.caption_decoder import RecurrentDecoder
from regard.training.models.captioner import Captioner, CaptionerConfig, DecoderName

SIZES = CaptionerConfig(
    vocabulary=14,
    output=11,
    backbone="patches",
    stage="8",
    height=24,
    width=16,
    values=12,
    embedding=8,
    hidden=10,
    attention=6,
    layers=2,
    heads=2,
    feed_forward=16,
    dropout=0.4,
)
CELLS = 6
every_decoder = pytest.mark.parametrize("decoder", ["gru", "lstm", "transformer"])


def make(**changed: Any) -> Captioner:
    """An untrained captioner with weights large enough to prefer something."""
    torch.manual_seed(5)
    model = Captioner(replace(SIZES, **changed)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


def pictures(count: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 24, 16, 3), dtype=torch.uint8, generator=generator)


@every_decoder
@torch.no_grad()
def test_every_row_of_attention_sums_to_1_over_the_cells(decoder: DecoderName) -> None:
    model = make(decoder=decoder)
    _, attention = model(pictures(), None, torch.randint(4, 14, (6, 5)))
    assert attention.shape == (6, 5, *model.attention_axes, CELLS)
    torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:-1]))


@every_decoder
@torch.no_grad()
def test_a_caption_step_by_step_is_the_caption_at_once(decoder: DecoderName) -> None:
    model = make(decoder=decoder)
    target = torch.randint(4, 14, (2, 5))
    features, attention = model(pictures(), None, target)
    whole = torch.log_softmax(model.output(features), dim=2)  # type: ignore[operator]
    memory, state = model.encode(pictures())
    for place in range(5):
        scores, state, looked = model.step(target[:, place], state, memory)
        torch.testing.assert_close(scores, whole[:, place], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(looked, attention[:, place], atol=1e-5, rtol=1e-5)


@every_decoder
@torch.no_grad()
def test_several_captions_of_a_picture_are_as_if_the_picture_were_there_several_times(decoder: DecoderName) -> None:
    model = make(decoder=decoder)
    target = torch.randint(4, 14, (6, 4))
    once, looked_once = model(pictures(), None, target)
    often, looked_often = model(pictures().repeat_interleave(3, dim=0), None, target)
    torch.testing.assert_close(once, often, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(looked_once, looked_often, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("decoder", ["gru", "lstm"])
@torch.no_grad()
def test_the_first_state_is_made_from_the_mean_of_the_map(decoder: DecoderName) -> None:
    describer = make(decoder=decoder).describer
    maps = torch.rand(2, CELLS, 192)
    _, state = describer.encode(maps)
    _, turned = describer.encode(maps.flip(1))
    for part, other in zip(state, turned, strict=True):
        torch.testing.assert_close(part, other)
        assert part.abs().max() <= 1.0


@torch.no_grad()
def test_a_closed_gate_hides_the_picture_from_the_next_word() -> None:
    model = make()
    decoder = model.describer.decoder
    assert isinstance(decoder, RecurrentDecoder)
    memory, state = model.encode(pictures(1))
    other, _ = model.encode(255 - pictures(1))
    token = torch.tensor([5])
    decoder.gate.weight.zero_()
    for bias, hidden in ((-60.0, True), (60.0, False)):
        decoder.gate.bias.fill_(bias)
        one, another = model.step(token, state, memory)[0], model.step(token, state, other)[0]
        assert torch.allclose(one, another, atol=1e-6) is hidden


@torch.no_grad()
def test_only_predictable_entries_are_scored() -> None:
    model = make()
    memory, state = model.encode(pictures())
    scores, _, _ = model.step(torch.tensor([2, 13]), state, memory)
    assert scores.shape == (2, SIZES.output)
    torch.testing.assert_close(scores.exp().sum(1), torch.ones(2))


@torch.no_grad()
def test_a_captioner_is_its_backbone_and_its_describer() -> None:
    model = make()
    memory, _ = model.encode(pictures(), torch.tensor([1, 1]))
    from_maps, _ = model.describer.encode(model.backbone(pictures()))
    assert torch.equal(memory.keys, from_maps.keys)
    assert torch.equal(memory.values, from_maps.values)


@torch.no_grad()
def test_the_self_attention_of_the_map_is_returned() -> None:
    memory, _, weights = make(self_attention=True).read(pictures())
    assert weights is not None
    assert weights.shape == (2, 1, 1, CELLS, CELLS)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 1, CELLS))
    assert make().read(pictures())[2] is None
    assert memory.values.shape == (2, CELLS, SIZES.values)


@torch.no_grad()
def test_without_places_a_cell_is_what_it_shows_wherever_it_lies() -> None:
    maps = torch.rand(1, CELLS, 192)
    for places in (False, True):
        describer = make(places=places).describer
        memory, _ = describer.encode(maps)
        turned, _ = describer.encode(maps.flip(1))
        assert torch.allclose(memory.values.flip(1), turned.values, atol=1e-6) is not places


@pytest.mark.parametrize(
    "changed",
    [{"values": 0}, {"output": 15}, {"dropout": 1.0}, {"decoder": "rnn"}, {"layers": 0}],
    ids=lambda changed: next(iter(changed)),
)
def test_sizes_that_cannot_be_are_named(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changed))):
        replace(SIZES, **changed)

"""Convolutional self-attention: a set of positions that look at each other, not there at all until it learns."""

# torch types manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import math

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from regard.contract.model_ports import GraphPorts
from regard.contract.ports import Port
from regard.export.families.trace import trace
from regard.training.models.image_attention import ImageSelfAttention

HEIGHT, WIDTH = 3, 4


def block(scale: float = 0.7) -> ImageSelfAttention:
    torch.manual_seed(4)
    made = ImageSelfAttention(channels=16, query_channels=5, value_channels=6)
    nn.init.constant_(made.scale, scale)
    return made


def picture(batch: int = 2) -> Tensor:
    torch.manual_seed(5)
    return torch.randn(batch, 16, HEIGHT, WIDTH)


def test_a_new_block_changes_nothing() -> None:
    changed, _ = ImageSelfAttention(channels=16)(picture())
    assert torch.equal(changed, picture())


def test_queries_keys_and_values_have_an_eighth_of_the_channels_by_default() -> None:
    made = ImageSelfAttention(channels=32)
    assert [layer.weight.shape[0] for layer in (made.query, made.key, made.value)] == [4, 4, 4]


@torch.inference_mode()
def test_every_position_spreads_weights_that_sum_to_one_over_all_positions() -> None:
    changed, weights = block()(picture())
    assert changed.shape == (2, 16, HEIGHT, WIDTH)
    assert weights.shape == (2, 1, HEIGHT * WIDTH, HEIGHT * WIDTH)
    torch.testing.assert_close(weights.sum(dim=3), torch.ones(2, 1, HEIGHT * WIDTH))


@torch.inference_mode()
def test_block_is_its_definition_position_by_position() -> None:
    made, inputs = block(), picture(1)
    changed, weights = made(inputs)
    query, key, value, output = (layer.weight[:, :, 0, 0] for layer in (made.query, made.key, made.value, made.output))
    pixels = [inputs[0, :, y, x] for y in range(HEIGHT) for x in range(WIDTH)]
    y, x = 1, 2
    energies = torch.stack([(query @ inputs[0, :, y, x]) @ (key @ pixel) for pixel in pixels]) / math.sqrt(5)
    expected = torch.softmax(energies, dim=0)
    torch.testing.assert_close(weights[0, 0, y * WIDTH + x], expected)
    found = sum((weight * (value @ pixel) for weight, pixel in zip(expected, pixels, strict=True)), torch.zeros(6))
    torch.testing.assert_close(changed[0, :, y, x], inputs[0, :, y, x] + 0.7 * (output @ found))


@torch.inference_mode()
def test_positions_in_another_order_give_the_same_results_in_that_order() -> None:
    made, inputs = block(), picture()
    order = torch.randperm(HEIGHT * WIDTH, generator=torch.Generator().manual_seed(6))
    shuffled = torch.unflatten(inputs.flatten(2)[:, :, order], 2, (HEIGHT, WIDTH))
    changed, weights = made(inputs)
    shuffled_changed, shuffled_weights = made(shuffled)
    torch.testing.assert_close(shuffled_changed.flatten(2), changed.flatten(2)[:, :, order])
    torch.testing.assert_close(shuffled_weights, weights[:, :, order][:, :, :, order])


def test_scale_learns_from_its_start_at_zero_and_then_everything_does() -> None:
    made = ImageSelfAttention(channels=16)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        made(picture())[0].square().mean().backward()
        optimizer.step()
    assert made.scale.item() != 0.0
    assert [name for name, weight in made.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@pytest.mark.parametrize("name", ["channels", "query_channels", "value_channels"])
def test_impossible_sizes_are_refused_with_their_value(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is 0"):
        ImageSelfAttention(**{"channels": 16, name: 0})


class Ports(nn.Module):
    """The block as a function from a tuple of tensors to a tuple of tensors."""

    def __init__(self, inner: ImageSelfAttention) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        return self.inner(inputs[0])


def test_graph_gives_what_torch_gives_for_any_batch() -> None:
    ports = GraphPorts(
        inputs=(Port(name="map", role="source", dtype="float32", axes=("batch", 16, HEIGHT, WIDTH)),),
        outputs=(
            Port(name="changed", role="memory", dtype="float32", axes=("batch", 16, HEIGHT, WIDTH)),
            Port(name="attention", role="attention", dtype="float32", axes=("batch", 1, 12, 12)),
        ),
    )
    made = block().eval()
    graph = trace(Ports(made).eval(), ((picture(2),),), ports)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch in (1, 3):
        changed, weights = session.run(None, {"map": picture(batch).numpy()})
        with torch.inference_mode():
            expected = made(picture(batch))
        np.testing.assert_allclose(np.asarray(changed), expected[0].numpy(), atol=1e-5)
        np.testing.assert_allclose(np.asarray(weights), expected[1].numpy(), atol=1e-5)

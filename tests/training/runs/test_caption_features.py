"""Feature maps: backbones by name, their weights, pictures that they read, and the cache on disk."""

# torch types manual_seed and from_numpy only in part.
# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from regard.training.data.toy_pictures import as_png, draw_square
from regard.training.models.efficientnet import STAGES, EfficientNetLite0
from regard.training.models.vision import Backbone, BackboneConfig, BackboneError, Pixels, make_backbone, read_picture
from regard.training.runs.feature_cache import find_cache, open_cache

PATCHES = BackboneConfig(name="patches", stage="8", height=24, width=24)
NAMES = ("red", "green", "blue")


def draw(names: Sequence[str]) -> Iterator[Pixels]:
    return (draw_square(name, 1, 2, ground=128) for name in names)


def never(names: Sequence[str]) -> Iterator[Pixels]:
    raise AssertionError(names)


class Said(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


def with_weights(scale: float) -> Backbone:
    """A backbone that has some: it multiplies every channel of a patch."""
    backbone = make_backbone(PATCHES)
    layer = nn.Conv2d(192, 192, 1, groups=192, bias=False)
    nn.init.constant_(layer.weight, scale)
    backbone.network = nn.Sequential(backbone.network, layer)
    return backbone


def test_maps_are_made_once_and_read_in_any_order(tmp_path: Path) -> None:
    backbone, said = make_backbone(PATCHES), Said()
    open_cache(tmp_path, backbone, NAMES, draw, say=said)
    found = open_cache(tmp_path, backbone, NAMES, never, say=said).get(["blue", "red"])
    pixels = torch.from_numpy(np.stack(list(draw(["blue", "red"]))))
    torch.testing.assert_close(found, backbone(pixels), atol=1e-3, rtol=1e-3)
    assert len(said) == 1
    assert "3 pictures" in said[0]


def test_other_weights_pictures_or_stages_get_maps_of_their_own(tmp_path: Path) -> None:
    open_cache(tmp_path, with_weights(1.0), NAMES, draw, say=Said())
    assert find_cache(tmp_path, with_weights(1.0), NAMES) is not None
    assert find_cache(tmp_path, with_weights(2.0), NAMES) is None
    assert find_cache(tmp_path, with_weights(1.0), NAMES[:2]) is None
    assert find_cache(tmp_path, make_backbone(PATCHES), NAMES) is None


def test_what_was_broken_off_leaves_nothing(tmp_path: Path) -> None:
    def fails(names: Sequence[str]) -> Iterator[Pixels]:
        yield from draw(names[:1])
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        open_cache(tmp_path, make_backbone(PATCHES), NAMES, fails, say=Said())
    with pytest.raises(ValueError, match="Only 0 of 3"):
        open_cache(tmp_path, make_backbone(PATCHES), NAMES, lambda names: draw(names[:1]), say=Said())
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_what_it_is_named_for_is_refused(tmp_path: Path) -> None:
    backbone = make_backbone(PATCHES)
    open_cache(tmp_path, backbone, NAMES, draw, say=Said())
    (path,) = tmp_path.iterdir()
    np.save(path, np.zeros((3, 1, 1), np.float16))
    with pytest.raises(ValueError, match="delete it"):
        find_cache(tmp_path, backbone, NAMES)


def test_a_map_counts_cells_row_by_row() -> None:
    maps = make_backbone(PATCHES)(torch.from_numpy(draw_square("red", 1, 2, ground=127))[None])
    assert maps.shape == (1, 9, 192)
    assert maps.abs().sum(2).argmax().item() == 1 * 3 + 2
    assert maps[0, :5].abs().max() == 0


@pytest.mark.parametrize("stage", list(STAGES))
def test_the_stages_of_efficientnet_have_the_maps_they_promise(stage: str) -> None:
    backbone = make_backbone(BackboneConfig(name="efficientnet_lite0", stage=stage, height=64, width=96))
    maps = backbone(torch.zeros(1, 64, 96, 3, dtype=torch.uint8))
    assert maps.shape == (1, backbone.rows * backbone.columns, backbone.channels)
    assert (backbone.rows, backbone.columns) == (64 // STAGES[stage].stride, 96 // STAGES[stage].stride)


def test_folded_norms_compute_what_norms_do() -> None:
    torch.manual_seed(1)
    network = EfficientNetLite0(STAGES["middle"])
    weights: dict[str, Any] = {}

    def norm(name: str, channels: int) -> nn.BatchNorm2d:
        layer = nn.BatchNorm2d(channels, eps=1e-3)
        for values in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
            assert values is not None
            nn.init.uniform_(values, 0.5, 1.5)
        weights.update({f"{name}.{key}": value for key, value in layer.state_dict().items()})
        return layer.eval()

    def convolution(name: str, like: nn.Module) -> None:
        assert isinstance(like, nn.Conv2d)
        weights[f"{name}.weight"] = torch.randn_like(like.weight)

    convolution("_conv_stem", network.stem.convolution)
    first = norm("_bn0", 32)
    for index, block in enumerate(network.blocks):
        parts: Any = block
        names = {"around": ("_depthwise_conv", "_bn1"), "narrow": ("_project_conv", "_bn2")}
        if parts.expand is not None:
            names["expand"] = ("_expand_conv", "_bn0")
        for part, (layer, its_norm) in names.items():
            like = getattr(parts, part).convolution
            convolution(f"_blocks.{index}.{layer}", like)
            norm(f"_blocks.{index}.{its_norm}", like.out_channels)
    network.load_published(weights)
    pictures = torch.randn(1, 3, 8, 8)
    padded = nn.functional.pad(pictures, (0, 1, 0, 1))
    expected = first(nn.functional.conv2d(padded, weights["_conv_stem.weight"], stride=2))
    torch.testing.assert_close(network.stem(pictures), expected, atol=1e-5, rtol=1e-5)


def test_the_last_blocks_alone_can_be_trained() -> None:
    backbone = make_backbone(BackboneConfig(name="efficientnet_lite0", stage="head", height=32, width=32))
    backbone.train_last(2)
    trained = {name for name, part in backbone.named_parameters() if part.requires_grad}
    every = dict(backbone.named_parameters())
    assert trained == {name for name in every if name.startswith(("network.blocks.15.", "network.head."))}
    assert len(trained) == 8
    with pytest.raises(BackboneError, match="99 blocks"):
        backbone.train_last(99)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "resnet"}, "no backbone resnet"),
        ({"name": "efficientnet_lite0", "stage": "first"}, "no stage first"),
        ({"height": 30}, "height is 30"),
        ({"stage": "0"}, "stage of patches"),
    ],
)
def test_a_backbone_that_cannot_be_is_explained(changed: dict[str, Any], said: str) -> None:
    settings: dict[str, Any] = {"name": "patches", "stage": "8", "height": 24, "width": 24, **changed}
    with pytest.raises(BackboneError, match=said):
        make_backbone(BackboneConfig(**settings))


def test_a_picture_of_another_size_is_squashed_as_pillow_does_it() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, size=(48, 70, 3), dtype=np.uint8)
    expected = np.array(Image.fromarray(pixels).resize((24, 24), Image.Resampling.BICUBIC))
    assert np.array_equal(read_picture(as_png(pixels), PATCHES), expected)


def test_a_picture_that_is_not_plain_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.new("L", (24, 24)).save(path)
    with pytest.raises(ValueError, match="mode L"):
        read_picture(path.read_bytes(), PATCHES)

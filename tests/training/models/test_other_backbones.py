"""Backbones of other packages: norms frozen into what checkpoints hold, and clear words where something is missing."""

# torch types manual_seed only in part.
# pyright: reportUnknownMemberType=false

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.training.models.other_backbones import FrozenNorms, ScaleAndShift
from regard.training.models.vision import BackboneConfig, BackboneError, load_published, make_backbone

CONFIG = BackboneConfig(name="timm:tiny", stage="-1", height=16, width=24)


class NormAndAct(nn.BatchNorm2d):
    """A norm that rectifies as well, as timm's do."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop = nn.Identity()
        self.act = nn.ReLU()

    def forward(self, input: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(input)))


class Tiny(nn.Module):
    """A network of two convolutions with their norms, whose maps come as a list."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(3, 4, 3, stride=4, padding=1, bias=False)
        self.norm = NormAndAct(4)
        self.two = nn.Sequential(nn.Conv2d(4, 5, 1, stride=2), nn.BatchNorm2d(5))
        norms: tuple[Any, ...] = (self.norm, self.two[1])
        for norm in norms:
            for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
                nn.init.uniform_(values, 0.5, 2.0)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        return [self.two(self.norm(self.one(pictures)))]


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name with one network."""

    def create_model(name: str, *, pretrained: bool, features_only: bool, out_indices: tuple[int, ...]) -> nn.Module:
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        torch.manual_seed(7 if pretrained else 8)
        network: Any = Tiny()
        network.pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
        return network

    package: Any = ModuleType("timm")
    package.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", package)


def test_frozen_norms_compute_what_norms_do() -> None:
    torch.manual_seed(1)
    network = Tiny().eval()
    pictures = torch.randn(2, 3, 16, 24)
    expected = network(pictures)[0]
    frozen = FrozenNorms(network)
    torch.testing.assert_close(frozen(pictures), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(frozen.train()(pictures), expected, atol=1e-5, rtol=1e-5)
    assert not list(frozen.buffers())
    assert isinstance(frozen.network.two[1], ScaleAndShift)  # type: ignore[index]


@pytest.mark.usefixtures("timm")
def test_a_network_of_a_package_is_a_backbone_with_its_own_normalisation() -> None:
    backbone = make_backbone(CONFIG)
    assert (backbone.rows, backbone.columns, backbone.channels) == (2, 3, 5)
    pixels = torch.randint(0, 256, (1, 16, 24, 3), dtype=torch.uint8)
    normalised = (pixels.permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
    expected = backbone.network(normalised).flatten(2).transpose(1, 2)
    torch.testing.assert_close(backbone(pixels), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("timm")
def test_published_weights_are_taken_over() -> None:
    backbone, other = make_backbone(CONFIG), make_backbone(CONFIG)
    load_published(backbone)
    torch.manual_seed(7)
    expected = FrozenNorms(Tiny())
    for name, parameter in backbone.network.named_parameters():
        assert torch.equal(parameter, dict(expected.named_parameters())[name])
    pixels = torch.randint(0, 256, (1, 16, 24, 3), dtype=torch.uint8)
    assert not torch.equal(backbone(pixels), other(pixels))


@pytest.mark.usefixtures("timm")
def test_a_network_that_the_package_does_not_know_is_explained() -> None:
    with pytest.raises(BackboneError, match=r"timm makes no map.*Unknown model"):
        make_backbone(BackboneConfig(name="timm:large", stage="-1", height=16, width=16))


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_a_package_that_is_missing_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("timm", "torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BackboneError, match=f"package {package}, which is not installed"):
        make_backbone(BackboneConfig(name=f"{package}:resnet18", stage="-1", height=32, width=32))


@pytest.mark.parametrize("name", ["timm", "patches:x", "torchvision:"])
def test_a_name_that_is_half_one_is_refused(name: str) -> None:
    with pytest.raises(BackboneError, match="timm:NAME"):
        make_backbone(BackboneConfig(name=name, stage="8", height=32, width=32))

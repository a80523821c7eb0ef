"""Takes convolutional networks of torchvision and timm for backbones, where those packages are installed.

They are not part of the project's requirements. It does not know what is done with the maps.
"""

# Neither package has types.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

# Of ImageNet pictures with values from 0 to 1, as both packages normalise them unless a network says otherwise.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Opened(NamedTuple):
    """A network up to one of its maps."""

    network: nn.Module
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


class Open(Protocol):
    """Opens a network of a package by name, up to a stage, with published weights or random ones."""

    def __call__(self, name: str, stage: str, *, published: bool) -> Opened: ...


def open_torchvision(name: str, stage: str, *, published: bool) -> Opened:
    """Open a network of torchvision up to the node of this name, for example layer4 of resnet50.

    Raises ImportError where the package is missing, ValueError for what it does not know.
    """
    from torchvision.models import get_model, get_model_weights
    from torchvision.models.feature_extraction import create_feature_extractor

    weights = next(iter(get_model_weights(name)), None) if published else None
    extractor = create_feature_extractor(get_model(name, weights=weights), return_nodes={stage: "map"})
    return Opened(FrozenNorms(extractor), MEAN, DEVIATION)


def open_timm(name: str, stage: str, *, published: bool) -> Opened:
    """Open a network of timm up to one of its maps by number, -1 for the last.

    Raises ImportError where the package is missing, ValueError for what it does not know.
    """
    from timm import create_model

    network: Any = create_model(name, pretrained=published, features_only=True, out_indices=(int(stage),))
    settings: Mapping[str, Any] = getattr(network, "pretrained_cfg", {}) or {}
    mean, deviation = (tuple(settings.get(key, other)) for key, other in (("mean", MEAN), ("std", DEVIATION)))
    return Opened(FrozenNorms(network), cast(Any, mean), cast(Any, deviation))


class FrozenNorms(nn.Module):
    """A network whose batch norms are the scales and shifts that they had come to, as parameters that checkpoints hold.

    Batches of few pictures would spoil the norms' running averages if the network is trained on.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.eval()
        _freeze(self.network)

    def forward(self, pictures: Tensor) -> Tensor:
        """Turn normalised pictures [batch, 3, height, width] into a map [batch, channels, rows, columns]."""
        found: Any = self.network(pictures)
        if isinstance(found, Tensor):
            return found
        (made,) = found.values() if isinstance(found, dict) else found
        return made


class ScaleAndShift(nn.Module):
    """What a batch norm does once it no longer learns: y = x * scale + shift for every channel."""

    @torch.no_grad()
    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = torch.rsqrt(norm.running_var + norm.eps)
        shift = -norm.running_mean * scale
        if norm.affine:
            scale, shift = scale * norm.weight, shift * norm.weight + norm.bias
        self.scale = nn.Parameter(scale.clone())
        self.shift = nn.Parameter(shift.clone())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs [batch, channels, height, width], scaled and shifted."""
        return inputs * self.scale.view(-1, 1, 1) + self.shift.view(-1, 1, 1)


def _freeze(module: nn.Module) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, nn.BatchNorm2d):
            frozen = ScaleAndShift(child)
            # timm has norms that drop and rectify as well.
            further = [part for part in (getattr(child, "drop", None), getattr(child, "act", None)) if part is not None]
            setattr(module, name, nn.Sequential(frozen, *further) if further else frozen)
        else:
            _freeze(child)

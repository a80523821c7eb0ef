"""Turns pictures into feature maps by the convolutions of EfficientNet-Lite0, made for ImageNet.

Tan and Le 2019, in the version without squeeze-and-excitation and with ReLU6. It does not know what the map
is used for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

# Kernel size, stride, expansion, channels and repeats of each group of blocks.
_GROUPS = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
_STEM, _HEAD = 32, 1280
_EPSILON = 1e-3  # of the batch norms that the weights were learnt with


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A place where the map can be taken from."""

    groups: int  # of blocks before it
    head: bool  # whether the last convolution, which widens the map, is done too
    stride: int  # pixels of a cell's side
    channels: int


STAGES: Mapping[str, Stage] = {
    "middle": Stage(groups=5, head=False, stride=16, channels=112),
    "last": Stage(groups=7, head=False, stride=32, channels=320),
    "head": Stage(groups=7, head=True, stride=32, channels=_HEAD),
}


class _Convolution(nn.Module):
    """A convolution that keeps the size, or halves it, as TensorFlow pads it: one more at the far sides if uneven.

    Its batch norm is part of its weights and bias.
    """

    def __init__(self, inputs: int, outputs: int, *, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, groups=groups)
        self._uneven = (kernel - stride) % 2
        self.convolution.padding = ((kernel - stride) // 2,) * 2 if not self._uneven else (0, 0)
        self._before = (kernel - stride) // 2
        self._after = kernel - stride - self._before

    def forward(self, inputs: Tensor) -> Tensor:
        """Return [batch, outputs, height / stride, width / stride] of sides that the stride divides."""
        if self._uneven:
            inputs = functional.pad(inputs, (self._before, self._after) * 2)
        return self.convolution(inputs)


class _Block(nn.Module):
    """Widen, look around in each channel, narrow; added to what came in where the shapes allow it."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = _Convolution(inputs, wide) if expansion > 1 else None
        self.around = _Convolution(wide, wide, kernel=kernel, stride=stride, groups=wide)
        self.narrow = _Convolution(wide, outputs)
        self._added = stride == 1 and inputs == outputs

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the next map."""
        wide = inputs if self.expand is None else functional.relu6(self.expand(inputs))
        outputs = self.narrow(functional.relu6(self.around(wide)))
        return outputs + inputs if self._added else outputs


class EfficientNetLite0(nn.Module):
    """The convolutional part up to a stage; batch norms are folded into the convolutions, so there are none."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stem = _Convolution(3, _STEM, kernel=3, stride=2)
        blocks: list[_Block] = []
        channels = _STEM
        for kernel, stride, expansion, outputs, repeats in _GROUPS[: stage.groups]:
            for repeat in range(repeats):
                blocks.append(
                    _Block(channels, outputs, kernel=kernel, stride=stride if repeat == 0 else 1, expansion=expansion)
                )
                channels = outputs
        self.blocks = nn.ModuleList(blocks)
        self.head = _Convolution(channels, _HEAD) if stage.head else None

    def forward(self, pictures: Tensor) -> Tensor:
        """Turn normalised pictures [batch, 3, height, width] into a map [batch, channels, rows, columns]."""
        features = functional.relu6(self.stem(pictures))
        for block in self.blocks:
            features = block(features)
        return features if self.head is None else functional.relu6(self.head(features))

    def load_published(self, weights: Mapping[str, Tensor]) -> None:
        """Take over weights under the names of the package efficientnet-lite-pytorch, with their batch norms."""
        _fold(self.stem, weights, "_conv_stem", "_bn0")
        for index, block in enumerate(self.blocks):
            assert isinstance(block, _Block)
            prefix = f"_blocks.{index}."
            if block.expand is not None:
                _fold(block.expand, weights, prefix + "_expand_conv", prefix + "_bn0")
            _fold(block.around, weights, prefix + "_depthwise_conv", prefix + "_bn1")
            _fold(block.narrow, weights, prefix + "_project_conv", prefix + "_bn2")
        if self.head is not None:
            _fold(self.head, weights, "_conv_head", "_bn1")


@torch.no_grad()
def _fold(target: _Convolution, weights: Mapping[str, Tensor], convolution: str, norm: str) -> None:
    """Give a convolution the weights of another and of the batch norm that follows it."""
    scale = weights[f"{norm}.weight"] * torch.rsqrt(weights[f"{norm}.running_var"] + _EPSILON)
    bias = target.convolution.bias
    assert bias is not None
    target.convolution.weight.copy_(weights[f"{convolution}.weight"] * scale.view(-1, 1, 1, 1))
    bias.copy_(weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale)

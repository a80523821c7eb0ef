"""Lets every position of a feature map look at all others: the self-attention block of Zhang et al. 2019, section 3.

It does not know what the map was made of, nor whether a generator, a classifier or a captioner is built around it.
"""

import torch
from torch import Tensor, nn

from regard.training.models.attention import check_sizes, scaled_dot_product


class ImageSelfAttention(nn.Module):
    """y = x + scale * W_o Y with Y = softmax(Q K^T / sqrt(D_Q)) V, where W_Q, W_K, W_V, W_o are 1x1 convolutions.

    Zhang et al. 2019 (SAGAN), section 3. The scale is learned and starts at 0, so that a network first relies on what
    is near, as if the block were not there, and only then learns to look far. Their energies are not divided by
    sqrt(D_Q); here they are, as everywhere else, which only sets how large W_Q and W_K begin.
    """

    def __init__(self, *, channels: int, query_channels: int | None = None, value_channels: int | None = None) -> None:
        """Make a block for maps of so many channels; queries and keys have query_channels, values value_channels.

        Both are an eighth of the channels where they are not given, and at least 1.

        Raises ValueError for a size below 1.
        """
        super().__init__()
        eighth = max(channels // 8, 1)
        query_channels = eighth if query_channels is None else query_channels
        value_channels = eighth if value_channels is None else value_channels
        check_sizes(channels=channels, query_channels=query_channels, value_channels=value_channels)
        self.query = nn.Conv2d(channels, query_channels, kernel_size=1, bias=False)
        self.key = nn.Conv2d(channels, query_channels, kernel_size=1, bias=False)
        self.value = nn.Conv2d(channels, value_channels, kernel_size=1, bias=False)
        self.output = nn.Conv2d(value_channels, channels, kernel_size=1, bias=False)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Look from every position of a map [batch, channel, height, width] at all of it.

        Returns the next map [batch, channel, height, width] and weights [batch, head, query, source] of the 1 head;
        query and source count positions row by row: height * width of them, of which y * width + x is row y, column x.
        """
        queries, keys, values = (_positions(layer(inputs)) for layer in (self.query, self.key, self.value))
        context, weights = scaled_dot_product(queries, keys, values)
        found = torch.unflatten(context.squeeze(1).transpose(1, 2), 2, inputs.shape[2:])
        return inputs + self.scale * self.output(found), weights


def _positions(features: Tensor) -> Tensor:
    """Turn a map [batch, dim, height, width] into [batch, head, height * width, dim] of 1 head."""
    return features.flatten(2).transpose(1, 2).unsqueeze(1)

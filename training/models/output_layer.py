"""Computes logits with the weights of the embedding (tied output layer)."""

import torch
from torch import Tensor, nn


class TiedOutput(nn.Module):
    """Scores each of the first `size` entries by its embedding's product with the features, plus a bias.

    Press and Wolf 2017. Entries that only the source language uses come last in the vocabulary and are not scored.
    """

    # Made by prepare_for_export alone.
    onnx_weight: Tensor

    def __init__(self, embedding: nn.Embedding, size: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.bias = nn.Parameter(torch.zeros(size))

    @property
    def weight(self) -> Tensor:
        """The embeddings of the entries that are scored [size, dim]."""
        return self.embedding.weight[: self.bias.shape[0]]

    def forward(self, features: Tensor) -> Tensor:
        """Turn features [..., dim] into logits [..., size]."""
        weight = self.onnx_weight if torch.onnx.is_in_onnx_export() else self.weight
        return nn.functional.linear(features, weight, self.bias)

    def prepare_for_export(self) -> None:
        """Cut the weight out of the embeddings, so that a graph holds it as one constant; call it before tracing."""
        self.register_buffer("onnx_weight", self.weight.detach().clone(), persistent=False)

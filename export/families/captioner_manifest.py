"""Writes into a manifest what is particular to a captioner: the pictures it reads and how long a caption may be."""

from __future__ import annotations

from regard.export.parity.greedy import LARGEST_CAPTION
from regard.training.models.captioner import Captioner
from regard.training.models.vision import RESAMPLING
from regard.v1 import bundle_pb2

# As Pillow and the contract call it.
_RESAMPLINGS = {
    "bilinear": bundle_pb2.RESAMPLING_BILINEAR,
    "bicubic": bundle_pb2.RESAMPLING_BICUBIC,
}
GROUND = (255, 255, 255)  # under what is transparent


def describe_captioner(manifest: bundle_pb2.Bundle, captioner: Captioner) -> None:
    """Turn the manifest of a model that writes into that of one that writes about pictures."""
    manifest.task = bundle_pb2.TASK_CAPTIONING
    del manifest.source_languages[:]
    rows, columns = captioner.backbone.rows, captioner.backbone.columns
    manifest.image.CopyFrom(
        bundle_pb2.ImageInput(
            height=captioner.config.height,
            width=captioner.config.width,
            rows=rows,
            columns=columns,
            resampling=_RESAMPLINGS[RESAMPLING],
            ground=GROUND,
        )
    )
    manifest.limits.max_source_tokens = rows * columns
    manifest.limits.max_target_tokens = LARGEST_CAPTION

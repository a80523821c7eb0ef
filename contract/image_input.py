"""Says how a picture must be made ready for a model, as the bundle states it.

It does not know files of pictures, nor how pixels are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regard.contract.errors import BundleError
from regard.contract.tasks import Task
from regard.v1 import bundle_pb2

Resampling = Literal["bilinear", "bicubic"]

_RESAMPLINGS: Mapping[int, Resampling] = {
    bundle_pb2.RESAMPLING_BILINEAR: "bilinear",
    bundle_pb2.RESAMPLING_BICUBIC: "bicubic",
}
_LARGEST_SIDE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInput:
    """What a model that reads pictures takes.

    Attributes:
        height, width: pixels of a picture, whatever its proportions were.
        rows, columns: cells of the map that is attended to; source position row * columns + column.
        resampling: filter that resizes.
        ground: red, green and blue under transparent pixels.
    """

    height: int
    width: int
    rows: int
    columns: int
    resampling: Resampling
    ground: tuple[int, int, int]

    @property
    def cells(self) -> int:
        """Source positions."""
        return self.rows * self.columns


def read_image_input(manifest: bundle_pb2.Bundle, task: Task) -> ImageInput | None:
    """Read `image` of a manifest, which a captioning model has and no other; None for the others.

    Raises:
        BundleError: it is missing or out of place, a value cannot be, or the limits speak of other cells.
    """
    if task is not Task.CAPTIONING:
        if manifest.HasField("image"):
            raise BundleError(f"image is there, but the task is {task.value}")
        return None
    if not manifest.HasField("image"):
        raise BundleError("image is missing, so nothing says what pictures the model takes")
    image = manifest.image
    for name in ("height", "width", "rows", "columns"):
        value: int = getattr(image, name)
        if not 1 <= value <= _LARGEST_SIDE:
            raise BundleError(f"image.{name} is {value}, expected 1 to {_LARGEST_SIDE}")
    resampling = _RESAMPLINGS.get(image.resampling)
    if resampling is None:
        raise BundleError(f"image.resampling is {image.resampling}, expected RESAMPLING_BILINEAR or RESAMPLING_BICUBIC")
    ground = tuple(image.ground)
    if len(ground) != 3 or not all(0 <= value <= 255 for value in ground):
        raise BundleError(f"image.ground is {list(ground)}, expected red, green and blue from 0 to 255")
    cells = image.rows * image.columns
    if manifest.limits.max_source_tokens != cells:
        raise BundleError(
            f"limits.max_source_tokens is {manifest.limits.max_source_tokens}, "
            f"but image has {image.rows} x {image.columns} cells"
        )
    return ImageInput(
        height=image.height,
        width=image.width,
        rows=image.rows,
        columns=image.columns,
        resampling=resampling,
        ground=(ground[0], ground[1], ground[2]),
    )

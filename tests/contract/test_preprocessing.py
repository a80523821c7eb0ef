"""What a model is trained with and what it is served are the same pixels."""

import io

import numpy as np
import pytest
from PIL import Image

from regard.contract.image_input import ImageInput
from regard.server.pictures.image_header import read_header
from regard.server.pictures.pixels import read_picture
from regard.server.settings import Limits
from regard.training.models import vision

SIDE = 224


def picture(width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(width).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("size", [(500, 375), (333, 500), (SIDE, SIDE), (64, 48), (895, 895)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_plain_pictures_are_the_same_pixels_in_training_and_serving(size: tuple[int, int], kind: str) -> None:
    stream = io.BytesIO()
    picture(*size).save(stream, format=kind)
    image = ImageInput(height=SIDE, width=SIDE, rows=7, columns=7, resampling=vision.RESAMPLING, ground=(255, 255, 255))
    header = read_header(stream.getvalue(), image, limits=Limits(), field="images[0]")
    served = read_picture(stream.getvalue(), header, image, field="images[0]")
    config = vision.BackboneConfig(name="none", stage="none", height=SIDE, width=SIDE)
    np.testing.assert_array_equal(served.pixels, vision.read_picture(stream.getvalue(), config))

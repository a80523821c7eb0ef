"""What becomes of every kind of file that is sent as a picture: the right pixels, or a sentence on what is wrong."""

from __future__ import annotations

import io
import resource
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile
from tests.server import picture_files as files

from regard.contract.image_input import ImageInput
from regard.server.errors import InvalidRequest
from regard.server.pictures.image_formats import holds_whole_jpeg
from regard.server.pictures.image_header import LONGEST_SIDE, Header, read_header
from regard.server.pictures.pixels import Picture, read_picture
from regard.server.request import Pixels
from regard.server.settings import Limits

INPUT = ImageInput(height=56, width=56, rows=7, columns=7, resampling="bilinear", ground=(255, 255, 255))
LIMITS = Limits()
ALIKE = files.all_alike()
DAMAGED = files.all_damaged()
NONE = files.none_at_all()
MEBIBYTE = 1024 * 1024


def header_of(data: bytes, *, limits: Limits = LIMITS) -> Header:
    return read_header(data, INPUT, limits=limits, field="images[0]")


def read(data: bytes, image: ImageInput = INPUT) -> Picture:
    header = read_header(data, image, limits=LIMITS, field="images[0]")
    return read_picture(data, header, image, field="images[0]")


def refusal(data: bytes, *, limits: Limits = LIMITS) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read_picture(data, header_of(data, limits=limits), INPUT, field="images[0]")
    assert caught.value.field == "images[0]"
    return caught.value.description


def shrunk(picture: Image.Image) -> Pixels:
    return np.asarray(picture.convert("RGB").resize((56, 56), Image.Resampling.BILINEAR))


SCENE = shrunk(files.scene())


def difference(pixels: Pixels, others: Pixels) -> float:
    return float(np.abs(pixels.astype(float) - others).mean())


@pytest.mark.parametrize("name", ALIKE)
def test_one_scene_gives_the_same_pixels_whatever_file_it_comes_in(name: str) -> None:
    """I01, I02, I03, I06 and I08."""
    picture = read(ALIKE[name])
    assert picture.pixels.shape == (56, 56, 3)
    assert picture.pixels.dtype == np.uint8
    assert difference(picture.pixels, SCENE) < 2
    assert (picture.width, picture.height) == (files.WIDTH, files.HEIGHT)


def test_a_file_is_told_by_its_content() -> None:
    assert {name: read(ALIKE[name]).format for name in ("JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF")} == {
        "JPEG": "JPEG",
        "PNG": "PNG",
        "WebP": "WEBP",
        "GIF": "GIF",
        "BMP": "BMP",
        "TIFF": "TIFF",
    }


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_orientation_is_followed_and_said(kind: str, orientation: int) -> None:
    """I08."""
    picture = read(files.rotated(orientation, kind))
    assert picture.orientation == orientation
    assert (picture.width, picture.height) == (files.WIDTH, files.HEIGHT)
    assert difference(picture.pixels, SCENE) < 2.5


def test_an_orientation_that_there_is_none_of_is_passed_over() -> None:
    exif = Image.Exif()
    exif[0x0112] = 99
    assert read(files.jpeg(exif=exif)).orientation == 1


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_metadata_does_not_spoil_a_sound_picture() -> None:
    data = files.jpeg(exif=b"Exif\0\0II*\0" + b"\xff" * 40)
    assert difference(read(data).pixels, SCENE) < 2


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_grey_of_16_bits_keeps_its_levels(kind: str) -> None:
    """I02: naive conversion makes all of it white."""
    ramp = np.tile(np.arange(56, dtype=np.uint16) * 1191, (56, 1))
    data = files.deep_png(ramp) if kind == "PNG" else files.saved(Image.fromarray(ramp), "TIFF")
    assert len(np.unique(read(data).pixels)) == 56
    np.testing.assert_array_equal(read(data).pixels[0, :, 0], np.rint(ramp[0] / 257))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "I;16", "F", "I"])
def test_grey_of_any_mode_becomes_three_equal_channels(mode: str) -> None:
    """I03."""
    grey = files.grey()
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    else:
        picture = grey.convert(mode, dither=Image.Dither.NONE)
    pixels = read(files.saved(picture, "TIFF")).pixels
    assert (pixels == pixels[:, :, :1]).all()
    assert mode == "1" or difference(pixels, shrunk(grey)) < 0.1


@pytest.mark.parametrize("largest", [1.0, 255.0, 65_535.0])
def test_real_numbers_are_read_by_their_range(largest: float) -> None:
    numbers = np.asarray(files.grey()).astype(np.float32) / 255 * largest
    assert difference(read(files.saved(Image.fromarray(numbers), "TIFF")).pixels, shrunk(files.grey())) < 1


@pytest.mark.parametrize("odd", [np.nan, np.inf, -1.0, 1e9])
def test_numbers_that_are_no_grey_are_refused(odd: float) -> None:
    numbers = np.full((8, 8), 7.0, dtype=np.float32)
    numbers[3, 3] = odd
    assert "grey values range from" in refusal(files.saved(Image.fromarray(numbers), "TIFF"))


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_what_is_invisible_makes_no_difference(kind: str) -> None:
    """I04."""
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    seen = [read(files.saved(files.hiding(noise), kind, **options)).pixels for noise in (0, 1, 2)]
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0], seen[2])


def test_the_ground_of_the_bundle_shows_where_a_picture_is_transparent() -> None:
    pixels = read(files.png(files.hiding(1)), replace(INPUT, ground=(10, 20, 30))).pixels
    assert pixels[28, 4].tolist() == [10, 20, 30]


def test_half_transparent_colours_are_mixed_with_the_ground() -> None:
    veiled = Image.new("RGBA", (8, 8), (255, 0, 0, 128))
    assert read(files.png(veiled)).pixels[0, 0].tolist() == pytest.approx([255, 127, 127], abs=1)


@pytest.mark.parametrize("mode", ["L", "RGB", "I;16"])
def test_a_colour_that_stands_for_nothing_shows_the_ground(mode: str) -> None:
    """A PNG without alpha may name one colour as transparent."""
    if mode == "I;16":
        picture, clear = Image.fromarray(np.full((8, 8), 700, dtype=np.uint16)), 700
    else:
        picture = Image.new(mode, (8, 8), 7 if mode == "L" else (7, 7, 7))
        clear = 7 if mode == "L" else (7, 7, 7)
    assert (read(files.png(picture, transparency=clear)).pixels == 255).all()


def test_the_transparent_colour_of_a_gif_shows_the_ground() -> None:
    """I06."""
    pixels = read(files.transparent_gif()).pixels
    assert pixels[8, 8].tolist() == [255, 255, 255]
    assert pixels[8, 48].tolist() == pytest.approx(files.GREEN, abs=8)


def test_an_animation_is_its_first_frame_every_time() -> None:
    """I06."""
    data = files.animated_gif(40)
    first = read(data).pixels
    assert difference(first, SCENE) < 2
    np.testing.assert_array_equal(first, read(data).pixels)


def test_a_colour_profile_is_followed() -> None:
    plain = Image.new("RGB", (16, 16), (200, 30, 30))
    pixels = read(files.png(plain, icc_profile=files.swapped_profile())).pixels
    assert pixels[0, 0, 1] > pixels[0, 0, 0] + 60


def test_a_colour_profile_is_followed_where_there_is_transparency_too() -> None:
    plain = Image.new("RGBA", (16, 16), (200, 30, 30, 255))
    pixels = read(files.png(plain, icc_profile=files.swapped_profile())).pixels
    assert pixels[0, 0, 1] > pixels[0, 0, 0] + 60


@pytest.mark.parametrize("profile", [b"no profile", files.swapped_profile()[:200]])
def test_a_colour_profile_that_is_unsound_is_passed_over(profile: bytes) -> None:
    np.testing.assert_array_equal(read(files.png(icc_profile=profile)).pixels, SCENE)


def test_a_colour_profile_of_other_colours_than_the_picture_has_is_passed_over() -> None:
    grey = files.png(files.grey(), icc_profile=files.swapped_profile())
    np.testing.assert_array_equal(read(grey).pixels, shrunk(files.grey()))


def test_a_small_jpeg_is_read_as_it_is_trained_with() -> None:
    """What training does with a plain JPEG: open, convert, resize."""
    data = files.jpeg(files.scene(500, 375))
    image = replace(INPUT, height=224, width=224)
    plain = np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(read(data, image).pixels, plain)


def test_a_large_jpeg_is_decoded_smaller_and_looks_the_same() -> None:
    large = files.scene(2000, 1500)
    header = header_of(files.jpeg(large))
    assert header.decode_bytes < 2 * MEBIBYTE < 2000 * 1500
    assert difference(read(files.jpeg(large)).pixels, shrunk(large)) < 1.5


def test_the_filter_is_that_of_the_bundle() -> None:
    pixels = read(files.png(), replace(INPUT, resampling="bicubic")).pixels
    np.testing.assert_array_equal(pixels, np.asarray(files.scene().resize((56, 56), Image.Resampling.BICUBIC)))


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_is_not_whole_is_refused_each_time(name: str) -> None:
    """I10."""
    said = refusal(DAMAGED[name])
    assert said == refusal(DAMAGED[name])
    assert "damaged" in said
    assert "object at" not in said


def test_no_switch_of_the_whole_process_lets_cut_files_pass() -> None:
    """I10."""
    read(ALIKE["JPEG"])
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_picture_is_refused_by_name(name: str) -> None:
    """I15 and I16."""
    data, named = NONE[name]
    said = refusal(data)
    assert named in said
    assert not data or "expected JPEG, PNG, WebP, GIF (first frame), BMP or TIFF" in said
    assert "object at" not in said
    assert "hostname" not in said


@pytest.mark.parametrize("side", [8_000, 13_300, 20_000])
def test_a_file_that_would_unfold_to_gigabytes_is_refused_from_its_header(side: int) -> None:
    """I11: in under 100 ms and 100 MB."""
    data = files.bomb(side)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    said = refusal(data)
    assert time.process_time() - began < 0.1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert "50000000" in said


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 4000), (4000, 1), (10_000, 10), (10, 10_000)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
def test_any_proportions_are_read(size: tuple[int, int], kind: str) -> None:
    """I13 and I14."""
    picture = read(files.saved(Image.new("RGB", size, files.RED), kind))
    assert (picture.width, picture.height) == size
    assert difference(picture.pixels, np.full((56, 56, 3), files.RED, dtype=np.uint8)) < 4


def test_a_side_that_would_take_more_memory_than_the_picture_is_refused() -> None:
    """I14."""
    assert f"the limit for each side is {LONGEST_SIDE}" in refusal(files.png(Image.new("1", (1, LONGEST_SIDE + 1))))


def test_limits_are_those_of_the_server() -> None:
    few = replace(LIMITS, max_image_pixels=1000)
    assert "240 x 160 = 38400 pixels; the limit is 1000" in refusal(files.png(), limits=few)
    small = replace(LIMITS, max_image_bytes=100)
    assert "bytes; the limit is 100" in refusal(files.png(), limits=small)


def test_a_jpeg_that_is_kept_whole_while_it_is_decoded_counts_for_more() -> None:
    large = files.scene(2000, 1500)
    assert holds_whole_jpeg(files.jpeg(large, progressive=True))
    assert not holds_whole_jpeg(files.jpeg(large))
    more = header_of(files.jpeg(large, progressive=True)).decode_bytes - header_of(files.jpeg(large)).decode_bytes
    assert more == 2000 * 1500 * 3 * 2


def test_tiles_larger_than_any_picture_are_refused() -> None:
    assert "tiles" in refusal(files.tiled_tiff(65_520))
    header_of(files.tiled_tiff(64))


@pytest.mark.parametrize("name", ["JPEG", "progressive JPEG", "PNG", "lossy WebP", "GIF", "BMP", "compressed TIFF"])
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_spoiled_files_are_read_or_refused_and_nothing_else(name: str, data: st.DataObject) -> None:
    spoiled = bytearray(ALIKE[name])
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(spoiled) - 1), st.integers(0, 255)), min_size=1, max_size=4)
    ):
        spoiled[place] = value
    kept = bytes(spoiled[: data.draw(st.integers(1, len(spoiled)))])
    with suppress(InvalidRequest):
        assert read(kept).pixels.shape == (56, 56, 3)

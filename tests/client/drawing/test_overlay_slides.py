"""Overlays show each map where it belongs on the upright picture, on slides that hold every word."""

import io
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from regard.client.captions import Caption
from regard.client.drawing.overlays import overlaid, slide_of, write_overlay
from regard.client.drawing.tiles import HEIGHT, WIDTH, Box, arrange
from regard.client.drawing.typefaces import DOTS_PER_INCH, Typefaces
from regard.client.drawing.upright import UnreadableImage, upright
from regard.client.results import Attention, Hypothesis, ModelReference, Span, Word

GREY = (128, 128, 128)
RED = (255, 0, 0)
LUMINANCE = [0.2126, 0.7152, 0.0722]


def caption_with(maps: NDArray[np.float32] | None, text: str) -> Caption:
    attention = (
        Attention(weights=maps, axes=("target", "row", "column"), granularity="word") if maps is not None else None
    )
    words = tuple(Word(text=each, span=Span(0, 0), first_token=0, token_count=1) for each in text.split())
    hypothesis = Hypothesis(
        text=text,
        score=0.0,
        finish_reason="end",
        tokens=(),
        words=words,
        end_log_probability=0.0,
        alignments=(),
        attention=attention,
    )
    model = ModelReference(name="toy", version="1", digest="", profile="cpu")
    return Caption(text=text, hypotheses=(hypothesis,), image=None, timing=None, error=None, model=model)


def one_hot(rows: int, columns: int, *cells: tuple[int, int]) -> NDArray[np.float32]:
    maps = np.zeros((len(cells), rows, columns), dtype=np.float32)
    for place, cell in enumerate(cells):
        maps[place][cell] = 1
    return maps


def picture_with_red_cell(width: int, height: int, rows: int, columns: int, cell: tuple[int, int]) -> Image.Image:
    """A grey picture whose cell (row, column) is red."""
    image = Image.new("RGB", (width, height), GREY)
    row, column = cell
    box = (column * width // columns, row * height // rows, (column + 1) * width // columns, (row + 1) * height // rows)
    image.paste(RED, box)
    return image


def stored(image: Image.Image, orientation: int = 1) -> bytes:
    """The bytes of a file that a viewer has to turn so that it shows the image."""
    back = {
        1: None,
        3: Image.Transpose.ROTATE_180,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    (image if back is None else image.transpose(back)).save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def cut(drawn: NDArray[np.uint8], box: Box) -> NDArray[np.float64]:
    left, top = round(box.left * DOTS_PER_INCH), round(box.top * DOTS_PER_INCH)
    right, bottom = round((box.left + box.width) * DOTS_PER_INCH), round((box.top + box.height) * DOTS_PER_INCH)
    return drawn[top + 2 : bottom - 2, left + 2 : right - 2].astype(np.float64)


def centre_of(mask: NDArray[np.bool_]) -> tuple[float, float]:
    """Where the true cells lie, as shares of height and width."""
    rows, columns = np.nonzero(mask)
    return (rows.mean() + 0.5) / mask.shape[0], (columns.mean() + 0.5) / mask.shape[1]


@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 7, 8])
@pytest.mark.parametrize(("width", "height"), [(600, 200), (200, 600)])
def test_the_brightest_place_lies_on_what_was_looked_at(
    tmp_path: Path, width: int, height: int, orientation: int
) -> None:
    """The first tile shows a red cell, the second where a map looked that knows this cell alone: the same place."""
    rows, columns, cell = 5, 6, (1, 4)
    data = stored(picture_with_red_cell(width, height, rows, columns, cell), orientation)
    maps = one_hot(rows, columns, cell)
    path = tmp_path / "slide.png"
    write_overlay(path, data, caption_with(maps, "red"))
    drawn = np.asarray(Image.open(path).convert("RGB"))
    plain, looked = slide_of("red", width / height, maps, Typefaces(["red"])).tiles.boxes
    assert plain.width / plain.height == pytest.approx(width / height)
    first, second = cut(drawn, plain), cut(drawn, looked)
    red = centre_of((first[..., 0] > 200) & (first[..., 1] < 60))
    light = second @ LUMINANCE
    bright = centre_of(light > light.max() - 3)
    expected = ((cell[0] + 0.5) / rows, (cell[1] + 0.5) / columns)
    assert red == pytest.approx(expected, abs=0.01)
    assert bright == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("ground", ["black", "white"])
@pytest.mark.parametrize("cell", [(0, 0), (0, 6), (6, 0), (6, 6), (2, 5)])
def test_what_was_looked_at_is_brightest_whatever_the_picture(ground: str, cell: tuple[int, int]) -> None:
    """The cell that was looked at is the only dark one, or the only light one, of the picture."""
    other = "white" if ground == "black" else "black"
    image = Image.new("RGB", (140, 140), other)
    row, column = cell
    image.paste(ground, (column * 20, row * 20, column * 20 + 20, row * 20 + 20))
    drawn = overlaid(image, one_hot(7, 7, cell)[0], 1.0).astype(np.float64)
    light = drawn @ LUMINANCE
    y, x = np.unravel_index(light.argmax(), light.shape)
    assert (y // 20, x // 20) == cell


@pytest.mark.parametrize("ground", ["black", GREY, "white"])
def test_equal_weights_are_lit_equally_and_more_is_lighter(ground: str | tuple[int, int, int]) -> None:
    image = Image.new("RGB", (64, 64), ground)
    weights = np.linspace(0, 1, 9, dtype=np.float32)
    levels = [overlaid(image, np.full((4, 4), weight, dtype=np.float32), 1.0).astype(float) for weight in weights]
    assert all(np.ptp(level.reshape(-1, 3), axis=0).max() == 0 for level in levels)
    lights = [(level @ LUMINANCE).mean() for level in levels]
    assert all(low < high for low, high in pairwise(lights))


def test_the_picture_shows_through_everywhere() -> None:
    stripes = Image.fromarray(np.tile(np.array([[60, 190]], dtype=np.uint8).repeat(8, axis=1), (64, 4)))
    for weight in (0.0, 0.5, 1.0):
        drawn = overlaid(stripes.convert("RGB"), np.full((4, 4), weight, dtype=np.float32), 1.0).astype(float)
        assert np.ptp(drawn.mean(axis=-1)) > 20


def texts_in(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def test_a_slide_holds_the_caption_every_word_and_the_range_of_each(tmp_path: Path) -> None:
    text = "ein größerer Hund бежит"
    maps = np.full((4, 7, 7), 1 / 49, dtype=np.float32)
    maps[2] = one_hot(7, 7, (3, 3))[0] * 0.31
    path = tmp_path / "slide.svg"
    write_overlay(path, stored(Image.new("RGB", (40, 30), GREY)), caption_with(maps, text), name="hund.jpg")
    texts = texts_in(path)
    assert {text, *text.split(), "0.31", "hund.jpg · toy 1"} <= set(texts)
    # An even look is no bright look: its colours end at four times its weight.
    assert texts.count("0.082") == 3
    assert any("an even look at 7 x 7 cells would be 0.020" in each for each in texts)


def test_slides_are_16_to_9(tmp_path: Path) -> None:
    path = tmp_path / "slide.png"
    write_overlay(path, stored(Image.new("RGB", (40, 30), GREY)), caption_with(one_hot(2, 2, (0, 0)), "dog"))
    with Image.open(path) as drawn:
        assert drawn.width / drawn.height == pytest.approx(16 / 9, rel=0.001)


def test_the_same_caption_gives_the_same_file(tmp_path: Path) -> None:
    data, caption = stored(Image.new("RGB", (40, 30), GREY)), caption_with(one_hot(2, 2, (0, 0)), "dog")
    for name in ("one.pdf", "two.pdf"):
        write_overlay(tmp_path / name, data, caption)
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()


@pytest.mark.parametrize("text", ["", "x" * 300, "$x^2$ \\frac{1}{2}", "\U000e0fff", "word " * 60])
def test_odd_captions_are_drawn(tmp_path: Path, text: str) -> None:
    maps = np.full((len(text.split()), 7, 7), 1 / 49, dtype=np.float32)
    write_overlay(tmp_path / "slide.svg", stored(Image.new("RGB", (9, 9), GREY)), caption_with(maps, text))
    assert (tmp_path / "slide.svg").stat().st_size > 0


@pytest.mark.parametrize("count", [1, 2, 9, 21, 41, 200])
@pytest.mark.parametrize("proportion", [1 / 1000, 1 / 3, 0.75, 1.0, 4 / 3, 3.0, 1000.0])
def test_tiles_keep_their_proportions_and_never_overlap(count: int, proportion: float) -> None:
    tiles = arrange(count, proportion, top=1.0, bottom=HEIGHT - 0.7)
    assert len(tiles.boxes) == count
    for box in tiles.boxes:
        assert box.width / box.height == pytest.approx(proportion)
        assert box.left >= 0
        assert box.left + box.width <= WIDTH
        assert box.top - tiles.label >= 1.0 - 1e-9
        assert box.top + box.height <= HEIGHT - 0.7 + 1e-9
    for box, after in pairwise(tiles.boxes):
        same_row = round(box.top, 6) == round(after.top, 6)
        assert box.left + box.width < after.left if same_row else box.top + box.height + tiles.label <= after.top


def test_twenty_words_stay_readable_on_a_slide() -> None:
    tiles = arrange(21, 4 / 3, top=1.5, bottom=HEIGHT - 0.75)
    assert tiles.boxes[0].width > 1.3
    assert tiles.label * 72 * 0.66 >= 11  # points


def test_a_caption_without_maps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without attention"):
        write_overlay(tmp_path / "a.png", b"", caption_with(None, "dog"))


def test_what_is_no_picture_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImage, match="cannot be read: no JPEG, PNG"):
        write_overlay(tmp_path / "a.png", b"<html>", caption_with(one_hot(2, 2, (0, 0)), "dog"))
    assert not (tmp_path / "a.png").exists()


def saved(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def test_transparent_pixels_are_white() -> None:
    drawn = upright(saved(Image.new("RGBA", (4, 4), (255, 0, 0, 0))), most=100)
    assert drawn.getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("top", [1.0, 255.0, 65535.0])
def test_fractions_keep_their_shades(top: float) -> None:
    ramp = np.linspace(0, top, 256).astype(np.float32)[None].repeat(4, axis=0)
    shades = np.asarray(upright(saved(Image.fromarray(ramp), "TIFF"), most=1000))
    assert len(np.unique(shades)) == 256


def test_a_dark_picture_of_sixteen_bits_stays_dark() -> None:
    dark = Image.fromarray(np.full((4, 4), 257, dtype=np.uint16))
    assert upright(saved(dark), most=100).getpixel((0, 0)) == (1, 1, 1)


def test_sixteen_bits_keep_their_shades() -> None:
    ramp = np.linspace(0, 65535, 256).astype(np.uint16)[None].repeat(4, axis=0)
    shades = np.asarray(upright(saved(Image.fromarray(ramp)), most=1000))
    assert len(np.unique(shades)) == 256


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_every_kind_of_picture_is_drawn_in_colour(kind: str, mode: str) -> None:
    if (kind, mode) in {("JPEG", "P"), ("WEBP", "1")}:
        mode = "L"
    drawn = upright(saved(Image.new(mode, (50, 30)), kind), most=20)
    assert (drawn.mode, drawn.size) == ("RGB", (20, 12))

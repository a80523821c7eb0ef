"""Pictures of attention: sane sizes, every label there, no input that breaks them."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.client.fake_server import FakeServer

from regard.client import AttentionQuery, Client
from regard.client.drawing.layout import Block, fit, paginate
from regard.client.drawing.panels import Panel, label, panels_of
from regard.client.drawing.pictures import write_attention

ACCENTS = ["señor", "über", "façade", "Łódź", "coração", "žluťoučký", "ÆØÅ", "Στρατός", "здравствуй"]


def panel(rows: int, columns: int) -> Panel:
    weights = np.random.default_rng(0).dirichlet(np.ones(columns + 1), size=rows).astype(np.float32)
    return Panel(
        rows=tuple(ACCENTS[place % len(ACCENTS)] for place in range(rows)),
        columns=tuple(ACCENTS[place % len(ACCENTS)] for place in range(columns)),
        weights=weights[:, :-1],
        end_weights=weights[:, -1],
    )


def texts_in(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def pixels(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 0), (4, 5), (60, 60), (2, 60), (60, 2)])
def test_pictures_of_all_sizes_are_drawn(tmp_path: Path, rows: int, columns: int) -> None:
    (path,) = write_attention(tmp_path / "a.png", [panel(rows, columns)], title="English → Spanish", caption="toy 1")
    width, height = pixels(path)
    assert 200 <= width <= 3600
    assert 200 <= height <= 3600
    assert path.stat().st_size < 1_000_000


def test_every_word_is_a_label(tmp_path: Path) -> None:
    (path,) = write_attention(tmp_path / "a.svg", [panel(4, 5)], title="English → Spanish", caption="toy 1")
    texts = texts_in(path)
    for word in ("English → Spanish", "toy 1", "end", *ACCENTS[:5]):
        assert word in texts


def test_small_grids_have_numbers_and_large_ones_a_scale(tmp_path: Path) -> None:
    (small,) = write_attention(tmp_path / "s.svg", [panel(3, 3)], title="x")
    (large,) = write_attention(tmp_path / "l.svg", [panel(13, 3)], title="x")
    assert any(re.fullmatch(r"\.\d\d", text) for text in texts_in(small))
    assert "1  attention" not in texts_in(small)
    assert not any(re.fullmatch(r"\.\d\d", text) for text in texts_in(large))
    assert "1  attention" in texts_in(large)


def test_pdf_is_a_pdf(tmp_path: Path) -> None:
    (path,) = write_attention(tmp_path / "a.PDF", [panel(2, 2)], title="x")
    assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_the_same_attention_gives_the_same_file(tmp_path: Path, suffix: str) -> None:
    (one,) = write_attention(tmp_path / f"one.{suffix}", [panel(1, 1)], title="x")
    (two,) = write_attention(tmp_path / f"two.{suffix}", [panel(1, 1)], title="x")
    assert one.read_bytes() == two.read_bytes()


def test_words_are_no_formulas(tmp_path: Path) -> None:
    strange = Panel(
        rows=("$x^2$", "\\frac{1}", "100 $"),
        columns=("a_b", "<b>&amp;", "${x}$"),
        weights=np.eye(3, dtype=np.float32),
        end_weights=np.zeros(3, dtype=np.float32),
    )
    (path,) = write_attention(tmp_path / "a.svg", [strange], title="$ → $")
    assert {"$x^2$", "\\frac{1}", "100 $", "${x}$", "$ → $"} <= set(texts_in(path))


def test_a_character_that_no_typeface_has_is_marked(tmp_path: Path) -> None:
    strange = Panel(
        rows=("\U000e0fff",),
        columns=("a",),
        weights=np.ones((1, 1), dtype=np.float32),
        end_weights=np.zeros(1, dtype=np.float32),
    )
    (path,) = write_attention(tmp_path / "a.svg", [strange], title="x")
    assert "\ufffd" in texts_in(path)


def test_many_sentences_fill_several_files(tmp_path: Path) -> None:
    written = write_attention(tmp_path / "a.png", [panel(13, 13)] * 2, title="x")
    assert [path.name for path in written] == ["a.png", "a-2.png"]
    assert all(path.exists() for path in written)


def test_a_page_holds_panels_side_by_side_on_one_level() -> None:
    blocks = [fit(panel(4, columns), lambda text, size: len(text) * size / 100) for columns in (3, 5, 4)]
    (page,) = paginate(blocks)
    (row,) = page.rows
    assert len(row) == 3
    assert len({block.above for block in row}) == 1


def test_pages_keep_every_panel_in_order() -> None:
    blocks = [fit(panel(size, size), lambda text, size: 0.5) for size in (3, 30, 60, 1, 2, 12, 12, 12)]
    ordered = [block.panel for page in paginate(blocks) for row in page.rows for block in row]
    assert ordered == [block.panel for block in blocks]


def test_labels_stay_inside_their_block() -> None:
    def measure(text: str, size: float) -> float:
        return len(text) * size / 100

    block: Block = fit(panel(3, 4), measure)
    longest = max(measure(text, block.font_size) for text in block.panel.rows)
    assert block.left > longest


def test_unknown_kinds_of_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf"):
        write_attention(tmp_path / "a.gif", [panel(1, 1)], title="x")


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no sentence"):
        write_attention(tmp_path / "a.png", [], title="x")


@pytest.mark.parametrize("granularity", ["word", "subword"])
def test_panels_show_what_the_server_sent(fake_server: FakeServer, granularity: str) -> None:
    with Client(fake_server.address) as client:
        query = AttentionQuery(granularity=granularity)  # type: ignore[arg-type]
        answers = client.translate(["one two", "", "three"], attention=query)
    first, second = panels_of(answers)
    assert (first.rows, first.columns) == (("ONE", "TWO"), ("one", "two"))
    weights: NDArray[np.float32] = first.weights
    np.testing.assert_allclose(weights, np.eye(2) * 0.75)
    np.testing.assert_allclose(first.end_weights, [0.25, 0.25])
    assert second.columns == ("three",)


def test_heads_are_averaged(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        answers = client.translate(["one two"], attention=AttentionQuery(reduction="none"))
    (only,) = panels_of(answers)
    np.testing.assert_allclose(only.weights, np.eye(2) * 0.75)


def test_no_attention_gives_no_panels(fake_server: FakeServer) -> None:
    with Client(fake_server.address) as client:
        assert panels_of(client.translate(["one two"])) == ()


def test_labels_are_short_and_on_one_line() -> None:
    assert label("a\nb\x00c") == "a b c"
    assert label("x" * 100) == "x" * 23 + "…"

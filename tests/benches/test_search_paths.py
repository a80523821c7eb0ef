"""The benchmark of the search's paths runs on the bundle without weights and tells both paths apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bundles import NULL

from regard.benches.search_paths import SHAPES, Figure, as_table, main


def test_every_shape_gets_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(NULL), "--blocks", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shapes = [tuple(line.split("|")[1:3]) for line in lines if line.startswith("| ") and line.split()[1].isdigit()]
    assert [(int(sentences), int(beam)) for sentences, beam in shapes] == list(SHAPES)


def test_a_folder_that_is_no_bundle_is_an_error_and_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_a_figure_is_shown_with_its_quartiles() -> None:
    table = as_table([Figure(sentences=2, beam=4, array=1500.4, few=1000.2, ratio=1.5, lower=1.45, upper=1.6)])
    assert table.splitlines()[-1] == "| 2 | 4 | 1500 | 1000 | 1.500 (1.450 to 1.600) |"

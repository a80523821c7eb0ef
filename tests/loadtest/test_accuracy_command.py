"""Accuracy is measured on what a server answers: here a toy that echoes, so that every figure is known beforehand."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest

from loadtest.accuracy import add_arguments, command
from loadtest.processes import Served

TEXTS = "The cat sleeps on the old chair .\nWe are eating bread and cheese today .\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_text(TEXTS)
    return path


def parsed(*argv: object) -> Namespace:
    parser = ArgumentParser()
    add_arguments(parser)
    return parser.parse_args([str(argument) for argument in argv])


def measured(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    assert command(parsed(*argv, "--json")) == 0
    return json.loads(capsys.readouterr().out)


def test_an_echo_of_the_reference_has_full_marks(
    toy_server: Served, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = measured(capsys, "--address", toy_server.address, "--source", source, "--reference", source)
    assert found["bleu"] == pytest.approx(100)
    assert found["chrf"] == pytest.approx(100)
    assert "aer" not in found


def test_figures_carry_their_signatures(toy_server: Served, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("--address", toy_server.address, "--source", source, "--reference", source, "--reference", source)
    bleu, chrf = measured(capsys, *argv)["figures"]
    assert "nrefs:2" in bleu["signature"]
    assert "tok:13a" in bleu["signature"]
    assert "nc:6" in chrf["signature"]


def test_words_in_the_order_of_the_source_align_along_the_diagonal(
    toy_server: Served, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = tmp_path / "links"
    links.write_text("\n".join(" ".join(f"{i}-{i}" for i in range(8)) for _ in range(2)) + "\n")
    argv = ("--address", toy_server.address, "--source", source, "--reference", source, "--alignments", links)
    assert measured(capsys, *argv)["aer"] == pytest.approx(0)


def test_alignments_with_their_sentences_need_no_other_file(
    toy_server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = tmp_path / "links.tsv"
    links.write_text("a b\tx y\t0-1 1-0\n")
    found = measured(capsys, "--address", toy_server.address, "--alignments", links)
    assert found["aer"] == pytest.approx(100)
    assert "bleu" not in found


def test_a_limit_takes_the_first_texts_only(
    toy_server: Served, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("--address", toy_server.address, "--source", source, "--reference", source, "--limit", 1)
    assert measured(capsys, *argv)["figures"][0]["test_set"] == "source, 1 texts"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 2, "nothing to measure"),
        (["--source", "x"], 2, "needs --reference"),
        (["--source", "x", "--alignments", "x"], 2, "--source needs --reference; alignments of source<TAB>target"),
        (["--reference", "x"], 2, "needs --source"),
        (["--source", "x", "--reference", "x", "--tatoeba", "y"], 2, "either"),
        (["--alignments", "x", "--limit", "0"], 2, "--limit"),
        (["--source", "missing", "--reference", "missing"], 1, "missing does not exist"),
    ],
)
def test_wrong_options_and_missing_files_are_named(
    argv: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(parsed(*argv)) == code
    assert said in capsys.readouterr().err

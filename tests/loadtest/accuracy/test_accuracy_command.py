"""Accuracy is measured on what a server answers: here a toy that echoes, so that every figure is known beforehand."""

import json
import tarfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest

from regard.loadtest.accuracy.command import add_arguments, command
from regard.loadtest.base.processes import Served

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


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """Files that the toy reads out, with two captions each, of which the first is what it will say."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"a black dog runs after ball {name}")
    path = tmp_path / "captions.tsv"
    path.write_text("".join(f"{n}\tA black dog runs after ball {n} .\n{n}\tA dog .\n" for n in ("one", "two")))
    return path


def test_captions_that_people_wrote_have_full_marks(
    toy_server: Served, captions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = measured(capsys, "--address", toy_server.address, "--captions", captions)
    assert [found[f"bleu{order}{long}"] for order in (1, 2, 3, 4) for long in ("", "_long")] == pytest.approx([100] * 8)
    assert found["cider"] > 0
    assert found["model"] == "toy-captions 1 (portable)"
    assert "nrefs:2" in found["figures"][0]["signature"]
    assert (found["pictures"], found["failures"]) == (2, [])
    assert {figure["difference"] for figure in found["figures"]} == {None}


def test_a_picture_without_a_caption_is_named_and_counts_as_all_wrong(
    toy_server: Served, captions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (captions.parent / "two").unlink()
    (captions.parent / "three").write_bytes(b"")
    with captions.open("a") as file:
        file.write("three\tA dog .\n")
    assert command(parsed("--address", toy_server.address, "--captions", captions)) == 1
    output = capsys.readouterr()
    assert "2 pictures got no caption" in output.out
    assert "not answered: two: No such file" in output.err
    assert "not answered: three: no bytes" in output.err
    assert "BLEU-1  100.00" in output.out  # of the words that were written
    assert "3 pictures, 1 to 2 references each" in output.out


def test_the_paper_and_the_difference_to_it_stand_beside_a_whole_test_split(
    toy_server: Served, captions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = captions.parent
    lines = [line.partition("\t") for line in captions.read_text().splitlines()]
    (folder / "captions.txt").write_text("".join(f"{name}#0\t{caption}\n" for name, _, caption in lines))
    (folder / "test.txt").write_text("one\ntwo\n")
    (folder / "images").mkdir()
    with tarfile.open(folder / "images" / "test.tar", "w") as tar:
        for name in ("one", "two"):
            tar.add(folder / name, arcname=name)
    argv = ("--address", toy_server.address, "--flickr8k", folder)
    figures = {figure["metric"]: figure for figure in measured(capsys, *argv)["figures"]}
    assert figures["bleu4_long"]["published"] == 21.3
    assert figures["bleu4_long"]["difference"] == pytest.approx(78.7)
    assert figures["cider"]["difference"] is None
    assert command(parsed(*argv)) == 0
    assert "+78.70" in capsys.readouterr().out


def test_pointing_counts_words_for_the_thing_whose_map_peaks_on_it(
    toy_server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = (
        "--address",
        toy_server.address,
        "--model",
        "say-a-red-ball",
        "--pointing",
        24,
        "--keep",
        tmp_path / "drawn",
    )
    found = measured(capsys, *argv)["pointing"]
    names = [path.stem for path in sorted((tmp_path / "drawn").iterdir())]
    assert len(names) == 24
    assert found["colours"]["words"] == sum("-red-" in name for name in names)
    # A disc may be called a ball.
    assert found["nouns"]["words"] == sum("-ball-" in name or "-disc-" in name for name in names)
    # The toy looks at the middle whatever is there, so that it is right as often as things lie there.
    assert 0 < found["hits"] < found["words"]
    assert 0 < found["chance"] < 0.5
    assert "noun for it" in found["definition"]


def test_captions_without_a_word_for_the_thing_have_no_rate(
    toy_server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("--address", toy_server.address, "--model", "say-nothing-of-it", "--pointing", 2)
    assert command(parsed(*argv)) == 0
    assert "0 of 2 captions have a word for it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--flickr8k", "x", "--captions", "y"], 2, "either --flickr8k or --captions"),
        (["--flickr8k", "x", "--tatoeba", "y"], 2, "one after the other"),
        (["--pointing", "0"], 2, "--pointing"),
        (["--captions", "x", "--keep", "y"], 2, "--keep needs --pointing"),
        (["--captions", "x", "--limit", "0"], 2, "--limit"),
        (["--captions", "missing"], 1, "missing does not exist"),
        (["--flickr8k", "missing"], 1, "captions.txt is missing"),
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

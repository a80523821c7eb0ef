"""The acceptance run shows outcomes as they come, makes its own inputs, and its cases are held by tests that exist."""

import io
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.acceptance.__main__ import main
from tests.acceptance.case_server import CaseServer, Inputs, Outcome, Reply
from tests.acceptance.cases import CASES, Case
from tests.acceptance.held_by_tests import HELD_BY, missing_tests
from tests.acceptance.picture_inputs import arrow_scene
from tests.acceptance.text_inputs import text_inputs
from tests.bundles import NULL

from regard.v1.translation_pb2 import TranslateResponse

TEXT = ("T01", "T03", "T04", "T05", "T08", "T10", "T11", "T13", "T14", "T15", "T16", "T17", "T19")
IMAGES = ("I01", "I02", "I03", "I04", "I06", "I08", "I10", "I11", "I13", "I14", "I15", "I16")
DECODING = ("D01", "D02", "D03", "D05", "D06", "D08", "D09", "D11", "D12", "D14", "D16", "D17")
EXPORT = ("X01", "X03", "X04", "X05", "X07", "X08", "X11", "X12")
TRANSPORT = ("G01", "G02", "G07", "L01")
FILE = re.compile(r"\"((?:[TID]\d\d_|REF)[^\"{}]*\.\w+)\"")


class Answering:
    """A server that takes every ordinary call."""

    translates = True

    def translate(self, text: str) -> Reply:
        return Reply("OK", "", TranslateResponse(), 0.0)


class Refusing:
    """A server that is gone."""

    translates = True

    def translate(self, text: str) -> Reply:
        return Reply("UNAVAILABLE", "gone", TranslateResponse(), 0.0)


def showing(*, ok: bool) -> Callable[[CaseServer], list[Outcome]]:
    """A case that shows one outcome on any server."""

    def attempt(_: CaseServer) -> list[Outcome]:
        return [Outcome("T01", "something", "this", "that", ok)]

    return attempt


def served_by(monkeypatch: pytest.MonkeyPatch, server: object) -> None:
    def connect(*_: object) -> object:
        return server

    monkeypatch.setattr("tests.acceptance.__main__.connect", connect)


def test_what_a_case_has_shown_is_printed_before_the_next_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    def second(_: CaseServer) -> list[Outcome]:
        printed.append(capsys.readouterr().out)
        return []

    served_by(monkeypatch, Answering())
    assert (
        main(["--address", "here", "--no-tests"], {"T01": Case("one", showing(ok=True)), "T03": Case("two", second)})
        == 0
    )
    assert "something" in printed[0]
    assert re.search("1 trials of 1 cases in .* 0 not as expected", capsys.readouterr().out)


def test_an_outcome_that_is_not_as_expected_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served_by(monkeypatch, Answering())
    assert main(["--address", "here", "--no-tests"], {"T01": Case("one", showing(ok=False))}) == 1
    assert "MISMATCH" in capsys.readouterr().out


def test_a_server_that_is_gone_after_a_case_fails_the_run_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreached(_: CaseServer) -> list[Outcome]:
        raise AssertionError("tried on a server that is gone")

    cases = {"T01": Case("one", showing(ok=True)), "T03": Case("two", unreached)}
    served_by(monkeypatch, Refusing())
    assert main(["--address", "here", "--no-tests"], cases) == 1
    assert "UNAVAILABLE" in capsys.readouterr().out


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "T99"]) == 2
    assert "no case T99" in capsys.readouterr().err


def test_cases_are_tried_on_a_server_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """On the model without weights, whose translations say nothing but whose bounds hold."""
    options = ["--models", str(NULL.parents[1]), "--no-tests"]
    assert main([*options, "--only", "T01", "--only", "T11", "--only", "D08"]) == 0, capsys.readouterr().out
    assert "of 3 cases" in capsys.readouterr().out


def test_every_case_is_tried_or_held_by_tests() -> None:
    assert sorted({*CASES, *HELD_BY}) == sorted((*TEXT, *IMAGES, *DECODING, *EXPORT, *TRANSPORT))


def test_every_test_that_holds_a_case_exists() -> None:
    assert missing_tests() == []


def test_every_input_that_a_case_reads_is_made() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*cases.py"))
    code += Path(__file__).with_name("image_refusals.py").read_text(encoding="utf-8")
    read = set(FILE.findall(code))
    inputs = Inputs()
    assert len(read) > 60
    assert [name for name in sorted(read) if name not in inputs.texts and name not in inputs.pictures] == []
    for lossless in ("REF.png", "I03_bmp.bmp", "I03_rgb.tif", "I15_png_named.jpg"):
        with Image.open(io.BytesIO(inputs[lossless])) as picture:
            assert np.array_equal(np.asarray(picture), np.asarray(arrow_scene())), lossless
    with pytest.raises(KeyError):
        inputs["T01_unknown.txt"]


def test_texts_have_the_trouble_that_they_are_named_after() -> None:
    texts = text_inputs()
    composed, apart = (texts[f"T08_{form}.txt"].decode() for form in ("nfc", "nfd"))
    assert composed != apart
    assert composed == unicodedata.normalize("NFC", apart)
    assert texts["T10_nul_middle.txt"].count(b"\0") == 1
    assert texts["T11_bom.txt"].startswith(b"\xef\xbb\xbf")
    assert len(texts["T04_text_1MiB.txt"]) == 2**20
    assert len(texts["T04_unbroken_5000_chars.txt"].split()) == 1
    assert 880 < len(texts["T04_one_sentence_900_words.txt"].split()) <= 900
    for name in ("T11_invalid_utf8.bin", "T11_lone_surrogate_wtf8.bin", "T11_truncated_utf8.bin"):
        with pytest.raises(UnicodeDecodeError):
            texts[name].decode()

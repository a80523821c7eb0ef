"""The command: it teaches, and says what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.training.__main__ import main
from regard.training.recipes.catalogue import RECIPES


def test_help_names_every_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in RECIPES)


def test_help_does_not_wait_for_torch() -> None:
    lines = (
        "import argparse, sys, regard.training.__main__ as command",
        "command.add_arguments(argparse.ArgumentParser())",
        "sys.exit('torch' in sys.modules)",
    )
    assert subprocess.run([sys.executable, "-c", "; ".join(lines)], check=False).returncode == 0


def test_missing_data_are_an_error_of_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    assert main(["en_es_rnn", "--out", str(tmp_path)]) == 1
    assert "--data or REGARD_DATA" in capsys.readouterr().err
    assert main(["en_es_rnn", "--out", str(tmp_path), "--data", str(tmp_path)]) == 1
    shown = capsys.readouterr().err
    assert "eng-spa.tsv.gz is missing" in shown
    assert shown.count("\n") == 1


def test_impossible_options_are_an_error_of_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["toy_copy", "--out", str(tmp_path), "--epochs", "0"]) == 1
    assert "epochs is 0" in capsys.readouterr().err


def test_an_option_of_other_recipes_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["toy_copy", "--out", str(tmp_path), "--cache", str(tmp_path)]) == 1
    assert "makes no feature maps: leave out --cache" in capsys.readouterr().err


def test_threads_are_limited_whatever_is_to_be_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", limits.append)
    assert main(["toy_copy", "--out", str(tmp_path), "--threads", "3", "--evaluate-only"]) == 1  # there is no run yet
    assert limits == [3]

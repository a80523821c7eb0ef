"""The page for whoever adds a model is true: its files, changes and commands lead to a served translation."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import regard

SOURCES = Path(regard.__file__).resolve().parent
PAGE = SOURCES.parents[1] / "docs" / "adding-a-model.md"
COMMAND = (sys.executable, "-c", "import sys; from regard.cli.main import main; sys.exit(main())")


class Block(NamedTuple):
    """A block of code of the page."""

    language: str
    text: str


def blocks() -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)]


def commands() -> list[str]:
    """Return the page's commands, one of each block."""
    return [block.text.strip() for block in blocks() if block.language == "sh"]


def follow(root: Path) -> None:
    """Write the page's files and apply its changes to a copy of the training folder."""
    for block in blocks():
        if block.language == "python":
            path = re.match(r"# (training/\S+\.py)\n", block.text)
            assert path, f"a file of the page begins with its path, not with {block.text[:40]!r}"
            assert not (root / path[1]).exists(), f"{path[1]} is there already"
            (root / path[1]).write_text(block.text.removeprefix(path[0]), encoding="utf-8")
        elif block.language == "diff":
            head, *hunks = block.text.split("@@\n")
            path = re.fullmatch(r"--- (training/\S+\.py)\n", head)
            assert path, f"a change of the page begins with its file, not with {head!r}"
            for hunk in hunks:
                change(root / path[1], hunk)


def change(file: Path, hunk: str) -> None:
    """Replace the lines of a hunk that begin with a space or `-` by those with a space or `+`."""
    lines = hunk.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} should have these lines once:\n{old}"
    file.write_text(text.replace(old, new), encoding="utf-8")


class Checkout(NamedTuple):
    """A copy of the project, changed as the page says, and how commands are run there."""

    root: Path
    environment: dict[str, str]

    def run(self, command: str) -> str:
        """Run a command of the page, which has to succeed; return its output."""
        done = subprocess.run(
            self.arguments(command), cwd=self.root, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def arguments(self, command: str) -> list[str]:
        words = re.findall(r'"[^"]*"|\S+', command.removesuffix(" &"))
        assert words[0] == "regard"
        return [*COMMAND, *(word.strip('"') for word in words[1:])]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    package = tmp_path / "src" / "regard"
    package.mkdir(parents=True)
    for entry in SOURCES.iterdir():
        if entry.name == "training":
            shutil.copytree(entry, package / "training", ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (package / entry.name).symlink_to(entry.resolve())
    (tmp_path / "training").symlink_to(package / "training")
    follow(tmp_path)
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "REGARD_ADDRESS": "127.0.0.1:0",
        "OMP_NUM_THREADS": "1",
    }
    return Checkout(tmp_path, environment)


@pytest.fixture
def stopped() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are stopped in the end."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_the_steps_of_the_page_lead_to_a_served_translation(
    checkout: Checkout, stopped: list[subprocess.Popen[str]]
) -> None:
    train, export, verify, serve, translate = commands()
    assert "exact" in checkout.run(train)
    checkout.run(export)
    assert "models/convolutional/1 holds" in checkout.run(verify)
    manifest = (checkout.root / "models/convolutional/1/bundle.json").read_text(encoding="utf-8")
    assert "sequences of up to four made-up words" in manifest
    server = subprocess.Popen(
        checkout.arguments(serve),
        cwd=checkout.root,
        env=checkout.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    stopped.append(server)
    assert server.stdout is not None
    ready = re.match(r"serving convolutional\S* on (\S+) ", server.stdout.readline())
    assert ready
    checkout.environment["REGARD_ADDRESS"] = ready[1]
    assert checkout.run(translate) == "dog cat bee\n"


def test_the_example_is_no_family_of_the_product() -> None:
    """Or the page would show how to add what is there."""
    assert not (SOURCES / "training" / "models" / "convolutional.py").exists()

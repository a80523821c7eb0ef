"""All that can be imported is `regard`: a project of its users may have a client.py, a server/ and models/ itself."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.bundles import ROOT

import regard

FOLDERS = sorted(path.name for path in (ROOT / "src/regard").iterdir() if path.is_symlink())
STRANGERS = (
    "client",
    "server",
    "models",
    "training",
    "export",
    "contract",
    "loadtest",
    "cli",
    "scoring",
    "datasets",
    "benches",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A stranger's folder with modules of his own under the names of our folders."""
    for name in STRANGERS:
        (tmp_path / f"{name}.py").write_text("whose = 'stranger'\n")
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=project, capture_output=True, text=True, check=True)


def test_a_strangers_modules_and_ours_do_not_clash(project: Path) -> None:
    imports = "; ".join(f"import {name}; assert {name}.whose == 'stranger'" for name in STRANGERS)
    ours = (
        "from regard import Client; import regard.server.front.process, regard.loadtest.run; print(Client.__module__)"
    )
    assert run(project, "-c", f"{imports}; {ours}").stdout == "regard.client.synchronous\n"


def test_the_command_runs_inside_a_strangers_project(project: Path) -> None:
    assert "translate" in run(project, "-m", "regard.cli.main", "translate", "--help").stdout


def test_every_folder_of_code_is_linked_under_the_one_name() -> None:
    code = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert code | {"v1"} == set(FOLDERS)


def test_no_module_is_imported_by_the_name_of_its_folder() -> None:
    names = "|".join(sorted({*FOLDERS} - {"v1"}))
    found = subprocess.run(
        ["git", "grep", "-nE", rf"^\s*(from|import) ({names})\b", "--", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert not found.stdout


def test_importing_regard_loads_nothing_heavy(project: Path) -> None:
    code = "import sys, regard; print(regard.__version__); sys.exit(bool({'grpc', 'numpy'} & set(sys.modules)))"
    assert run(project, "-c", code).stdout.strip() == regard.__version__


def test_names_that_regard_promises_are_there() -> None:
    for name in regard.__all__:
        assert getattr(regard, name)
    assert set(dir(regard)) == set(regard.__all__)
    with pytest.raises(AttributeError, match="Clint"):
        _ = regard.Clint


def test_the_client_alone_asks_for_what_the_whole_asks_for_without_extras() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    alone = tomllib.loads((ROOT / "packages/regard-client/pyproject.toml").read_text())["project"]
    assert sorted(alone["dependencies"]) == sorted(whole["dependencies"])
    assert alone["optional-dependencies"]["pictures"] == whole["optional-dependencies"]["pictures"]

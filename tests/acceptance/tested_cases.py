"""The cases that are properties of export, of toy models or of broken ones: held by tests, which this runs.

It does not know what the tests do: those named here, and those that name a case in a docstring, hold it.
"""

import ast
import re
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from tests.acceptance.case_server import Outcome

from regard.loadtest.base.processes import child

TESTS = Path(__file__).resolve().parent.parent / "tests"
HELD_BY = {
    "D01": (
        "server/engine/test_engine_pool.py::test_a_model_that_never_ends_is_cut_at_a_length_that_follows_from_its_source",
    ),
    "D03": (
        "server/engine/test_engine_pool.py::test_a_beam_as_wide_as_all_targets_finds_the_best_of_all",
        "server/search/test_search.py::test_candidates_are_those_of_a_full_sort",
    ),
    "D08": ("server/engine/test_engine_pool.py::test_a_beam_wider_than_the_vocabulary_works",),
    "D12": (
        "server/engine/test_engine_pool.py::test_an_end_of_sentence_first_gives_an_empty_target_with_attention_of_no_rows",
    ),
    "D14": ("server/engine/test_engine_pool.py::test_a_model_that_copies_looks_along_the_diagonal",),
    "X11": (
        "server/runtime/test_session.py::test_a_graph_newer_than_the_runtime_is_refused_by_name",
        "export/families/test_exported_model.py::test_opset_and_ir_are_recorded_and_every_graph_opens",
    ),
    "X12": ("server/runtime/test_session.py::test_nothing_of_size_zero_reaches_the_encoder",),
}
_CASE = re.compile(r"\b[A-Z]\d{2}\b")
SECONDS = 900.0


def find_tests(folder: Path, cases: Sequence[str]) -> dict[str, list[str]]:
    """The tests of each case, as pytest names them: those listed, and those with the case in a docstring.

    A listed test that is not there any more is left out, so that its case shows as held by nothing.
    """
    found: dict[str, list[str]] = {case: [] for case in cases}
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(folder.parent).as_posix()
        for case in _named(tree, found):
            found[case].append(name)
        for function in tree.body:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                test = f"{name}::{function.name}"
                listed = [case for case in found for held in HELD_BY.get(case, ()) if f"{folder.name}/{held}" == test]
                for case in dict.fromkeys([*listed, *_named(function, found)]):
                    found[case].append(test)
    return found


def run_tests(cases: Sequence[str], *, run: bool) -> list[Outcome]:
    """Run what holds the cases; only name it where the development tools are not installed or `run` is false."""
    if not TESTS.is_dir():
        return [
            Outcome(case, "its tests", "pass", "the tests are not part of this installation", None) for case in cases
        ]
    found = find_tests(TESTS, cases)
    wanted = sorted({name for names in found.values() for name in names})
    results = _run(wanted) if run and wanted and find_spec("pytest") is not None else None
    return [_outcome(case, names, results) for case, names in found.items()]


def _named(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef, known: dict[str, list[str]]) -> list[str]:
    return [case for case in dict.fromkeys(_CASE.findall(ast.get_docstring(node) or "")) if case in known]


def _run(names: Sequence[str]) -> dict[str, bool]:
    with tempfile.TemporaryDirectory(prefix="regard-cases-") as folder:
        report = Path(folder, "report.xml")
        command = ["-m", "pytest", "-q", f"--junitxml={report}", *names]
        with child(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=TESTS.parent) as process:
            process.wait(timeout=SECONDS)
        if not report.exists():
            return {}
        root = ElementTree.parse(report).getroot()
    results: dict[str, bool] = {}
    for element in root.iter("testcase"):
        file = element.get("classname", "").replace(".", "/") + ".py"
        test = f"{file}::{element.get('name', '').partition('[')[0]}"
        passed = element.find("failure") is None and element.find("error") is None and element.find("skipped") is None
        for name in (file, test):
            results[name] = results.get(name, True) and passed
    return results


def _outcome(case: str, names: Sequence[str], results: dict[str, bool] | None) -> Outcome:
    if not names:
        return Outcome(case, "its tests", "pass", "no test names this case", False)
    short = ", ".join(sorted({Path(name.partition("::")[0]).name for name in names}))
    if results is None:
        return Outcome(case, short, "pass", f"held by {', '.join(names)} (not run)", None)
    failed = [name for name in names if not results.get(name, False)]
    return Outcome(case, short, "pass", f"failed: {', '.join(failed)}" if failed else "passed", not failed)

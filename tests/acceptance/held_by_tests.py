"""The cases that no running server can show: properties of export, of toy models or of broken graphs, held by tests."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.acceptance.case_server import Outcome

from regard.loadtest.base.processes import child

ROOT = Path(__file__).parents[2]
SECONDS = 900.0
HELD_BY: Mapping[str, Sequence[str]] = {
    "D01": (
        "server/engine/test_engine_pool.py::test_a_model_that_never_ends_is_cut_at_a_length_that_follows_from_its_source",
    ),
    "D02": ("server/services/test_captions.py::test_a_model_that_never_ends_gives_a_cut_caption_with_its_maps",),
    "D03": (
        "server/engine/test_engine_pool.py::test_a_beam_as_wide_as_all_targets_finds_the_best_of_all",
        "server/search/test_candidates.py::test_candidates_are_those_of_a_full_sort",
    ),
    "D08": ("server/engine/test_engine_pool.py::test_a_beam_wider_than_the_vocabulary_works",),
    "D12": (
        "server/engine/test_engine_pool.py::test_an_end_of_sentence_first_gives_an_empty_target_with_attention_of_no_rows",
    ),
    "D14": ("server/engine/test_engine_pool.py::test_a_model_that_copies_looks_along_the_diagonal",),
    "D17": ("server/services/test_captions.py::test_a_map_peaks_where_the_red_square_is_in_the_upright_picture",),
    "X01": (
        "export/families/test_exported_model.py",
        "export/families/test_graph_tracing.py",
        "export/parity/test_parity_record.py",
    ),
    "X03": ("export/families/test_graph_tracing.py", "export/parity/test_parity_record.py"),
    "X04": ("export/families/test_exported_model.py", "export/surgery/test_graph_checks.py"),
    "X05": ("export/families/test_exported_model.py", "export/parity/test_parity_record.py"),
    "X08": ("contract/test_bundle_files.py", "export/surgery/test_graph_checks.py"),
    "X11": (
        "server/runtime/test_session.py::test_a_graph_newer_than_the_runtime_is_refused_by_name",
        "export/families/test_exported_model.py::test_opset_and_ir_are_recorded_and_every_graph_opens",
    ),
    "X12": (
        "server/runtime/test_session.py::test_nothing_of_size_zero_reaches_the_encoder",
        "export/families/test_exported_model.py",
    ),
}


def missing_tests() -> list[str]:
    """Those of `HELD_BY` that are not there, by a look at the files."""
    missing: list[str] = []
    for name in sorted({name for names in HELD_BY.values() for name in names}):
        file, _, function = name.partition("::")
        path = ROOT / "tests" / file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not text or (function and not re.search(rf"^(async )?def {function}\(", text, re.MULTILINE)):
            missing.append(name)
    return missing


def run_tests(cases: Sequence[str]) -> list[Outcome]:
    """Run the tests that hold the cases, all in one go; an outcome for each case."""
    wanted = sorted({f"tests/{name}" for case in cases for name in HELD_BY[case]})
    with tempfile.TemporaryDirectory(prefix="regard-acceptance-") as folder:
        report = Path(folder, "report.xml")
        command = ["-m", "pytest", "-q", f"--junitxml={report}", *wanted]
        # The table alone goes to stdout.
        with child(command, stdout=sys.stderr.fileno(), stderr=subprocess.STDOUT, cwd=ROOT) as process:
            process.wait(timeout=SECONDS)
        passed = _passed(report) if report.exists() else {}
    return [_outcome(case, passed) for case in cases]


def _passed(report: Path) -> dict[str, bool]:
    """Whether a file or a test passed in all its parameters, by its name relative to tests/."""
    results: dict[str, bool] = {}
    for element in ElementTree.parse(report).getroot().iter("testcase"):
        file = element.get("classname", "").removeprefix("tests.").replace(".", "/") + ".py"
        test = f"{file}::{element.get('name', '').partition('[')[0]}"
        ok = all(element.find(what) is None for what in ("failure", "error", "skipped"))
        for name in (file, test):
            results[name] = results.get(name, True) and ok
    return results


def _outcome(case: str, passed: Mapping[str, bool]) -> Outcome:
    names = HELD_BY[case]
    short = ", ".join(dict.fromkeys(Path(name.partition("::")[0]).name for name in names))
    failed = [name for name in names if not passed.get(name, False)]
    return Outcome(case, short, "pass", f"failed: {', '.join(failed)}" if failed else "passed", not failed)

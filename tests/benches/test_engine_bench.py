"""The engine decodes for a benchmark: commands in, times and tokens out. On the bundle without weights."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bundles import NULL

from regard.benches.engine.decode_lines import EngineBench, serve
from regard.benches.engine.operator_times import read_trace, sum_events


@pytest.fixture
def bench() -> Iterator[EngineBench]:
    made = EngineBench(NULL)
    yield made
    made.close()


def ask(bench: EngineBench, *commands: dict[str, Any]) -> list[dict[str, Any]]:
    answers = io.StringIO()
    serve(bench, io.StringIO("".join(json.dumps(command) + "\n" for command in commands)), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def prepare(bench: EngineBench, beams: int = 1) -> dict[str, Any]:
    precision = ask(bench, {"do": "describe"})[0]["precisions"][0]
    return {"do": "prepare", "precision": precision, "workers": 1, "rows": 4, "beams": beams}


def sources(bench: EngineBench) -> list[list[int]]:
    (found,) = ask(bench, {"do": "tokenize", "texts": ["one two", "three four five"]})
    return found["sources"]


@pytest.mark.parametrize("beams", [1, 3])
def test_every_translation_has_the_length_that_was_asked_for(bench: EngineBench, beams: int) -> None:
    decode = {"do": "decode", "sources": sources(bench), "length": 5, "answers": True}
    _, answer = ask(bench, prepare(bench, beams), decode)
    assert [len(tokens) for tokens in answer["answers"]] == [5, 5]
    assert answer["tokens"] == 10
    assert answer["seconds"] > 0


def test_a_command_that_cannot_be_done_is_answered_and_the_next_one_is_done(bench: EngineBench) -> None:
    wrong: list[dict[str, Any]] = [
        {"do": "dance"},
        {"do": "prepare"},
        {"do": "decode", "sources": [[4]], "length": 1},
        {"do": "prepare", "precision": "int4", "workers": 1, "rows": 1, "beams": 1},
    ]
    *refused, described = ask(bench, *wrong, {"do": "describe"})
    assert all(set(answer) == {"error"} for answer in refused)
    assert described["name"] == "Regard"


def test_a_source_that_the_model_cannot_read_is_refused(bench: EngineBench) -> None:
    _, answer = ask(bench, prepare(bench), {"do": "decode", "sources": [[]], "length": 1})
    assert "source" in answer["error"]


def test_nothing_to_decode_is_refused_and_not_waited_for(bench: EngineBench) -> None:
    _, answer = ask(bench, prepare(bench), {"do": "decode", "sources": [], "length": 1})
    assert "no sources" in answer["error"]


def test_a_profile_says_how_often_each_graph_ran(bench: EngineBench) -> None:
    asked = {**prepare(bench), "do": "profile", "sources": sources(bench), "length": 3}
    (answer,) = ask(bench, asked)
    assert set(answer["graphs"]) == {"encode", "step"}
    assert answer["graphs"]["step"]["runs"] >= 3
    assert answer["graphs"]["step"]["operators"]


def test_kernels_are_summed_by_operator_most_first(tmp_path: Path) -> None:
    events = [
        {"cat": "Session", "name": "model_run", "dur": 900},
        {"cat": "Node", "name": "a_kernel_time", "dur": 100, "args": {"op_name": "Add"}},
        {"cat": "Node", "name": "b_kernel_time", "dur": 500, "args": {"op_name": "MatMul"}},
        {"cat": "Node", "name": "c_kernel_time", "dur": 200, "args": {"op_name": "Add"}},
        {"cat": "Node", "name": "c_fence_before", "dur": 70, "args": {"op_name": "Add"}},
    ]
    (tmp_path / "trace.json").write_text(json.dumps(events))
    found = read_trace(tmp_path / "trace.json")
    assert found == sum_events(events)
    assert found.runs == 1
    assert found.seconds == pytest.approx(900e-6)
    assert list(found.operators.items()) == [("MatMul", pytest.approx(500e-6)), ("Add", pytest.approx(300e-6))]
    assert list(found.nodes) == ["MatMul b", "Add c", "Add a"]

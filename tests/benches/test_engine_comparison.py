"""Two decoders are compared fairly: same blocks, in turn, figures that say what was measured. Both are fakes here."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bundles import NULL

from regard.benches.engine.command import add_arguments, check_weights, command
from regard.benches.engine.comparison import Agreement, Measured, agreement, compare, compare_answers
from regard.benches.engine.figures import as_json, join, tables
from regard.benches.engine.paired_ratios import Ratio, paired_ratio, turns
from regard.benches.engine.plan import Plan, Sentences, Setting, all_settings, fill, of_one_length
from regard.benches.engine.plot import draw
from regard.benches.engine.text import as_page_part, as_text
from regard.loadtest.base.line_process import LineProcess, ProcessFault
from regard.loadtest.base.page_part import replace_part, with_part

SENTENCES = Sentences(sources=((5, 6, 3), (7, 8, 3)), tokens=3, origin="a test")


class FakeDecoder:
    """Takes a fixed time for each sentence and answers every source with its first token, over and over."""

    def __init__(self, name: str, seconds: float, diary: list[str]) -> None:
        self.name = name
        self.seconds = seconds
        self.diary = diary
        self.prepared: dict[str, Any] = {}
        self.blocks: list[list[list[int]]] = []
        self.said_too_little = False

    def ask(self, do: str, **command: Any) -> dict[str, Any]:
        self.diary.append(f"{self.name} {do}")
        if do == "prepare":
            self.prepared = command
            return {}
        sources, length = command["sources"], command["length"]
        self.blocks.append(sources)
        answers = [[source[0]] * (length - self.said_too_little) for source in sources]
        seconds = self.seconds * len(sources)
        found = {"seconds": seconds, "processor_seconds": seconds / 2, "tokens": sum(map(len, answers))}
        return {**found, "answers": answers} if command.get("answers") else found


def plan(*settings: Setting, pairs: int = 4, block_seconds: float = 0.5) -> Plan:
    return Plan(settings=settings, pairs=pairs, block_seconds=block_seconds, length=4)


def measured_with(ours: FakeDecoder, theirs: FakeDecoder, found: Plan) -> list[Measured]:
    return compare(ours, theirs, found, SENTENCES, lambda done, setting: None)


def test_twice_the_speed_is_a_ratio_of_two() -> None:
    diary: list[str] = []
    ours, theirs = FakeDecoder("ours", 0.01, diary), FakeDecoder("theirs", 0.02, diary)
    (found,) = measured_with(ours, theirs, plan(Setting("int8", 1, 1, 8)))
    assert found.ratio == (pytest.approx(2), pytest.approx(2), pytest.approx(2), 4)
    assert found.ours == pytest.approx(4 / 0.01)


def test_sides_take_turns_and_neither_is_always_first() -> None:
    diary: list[str] = []
    measured_with(FakeDecoder("a", 1, diary), FakeDecoder("b", 1, diary), plan(Setting("int8", 1, 1, 1)))
    assert diary[-8:] == [f"{name} decode" for name in "abbaabba"]


def test_both_sides_get_the_same_blocks_which_fill_all_rows() -> None:
    diary: list[str] = []
    ours, theirs = FakeDecoder("ours", 0.03, diary), FakeDecoder("theirs", 0.05, diary)
    (found,) = measured_with(ours, theirs, plan(Setting("int8", 2, 1, 8)))
    assert ours.blocks[-4:] == theirs.blocks[-4:]
    assert found.sentences % 16 == 0
    assert found.sentences * 0.03 >= 0.5
    assert ours.prepared == theirs.prepared == {"precision": "int8", "workers": 2, "beams": 1, "rows": 8}


def test_a_side_that_writes_fewer_tokens_is_found_out() -> None:
    ours, theirs = FakeDecoder("ours", 1, []), FakeDecoder("theirs", 1, [])
    theirs.said_too_little = True
    with pytest.raises(ValueError, match="not 1 times 4"):
        measured_with(ours, theirs, plan(Setting("int8", 1, 1, 1)))


def test_equal_answers_agree() -> None:
    found = agreement(FakeDecoder("ours", 1, []), FakeDecoder("theirs", 1, []), "float32", SENTENCES, 4)
    assert found == Agreement(precision="float32", sentences=2, differing=0, tokens=1.0)


def test_one_other_token_makes_one_other_sentence() -> None:
    found = compare_answers("int8", [[1, 2], [3, 4]], [[1, 2], [3, 5]])
    assert (found.differing, found.tokens) == (1, 0.75)


def test_a_missing_token_counts_as_another() -> None:
    assert compare_answers("int8", [[1, 2]], [[1]]).tokens == 0.5


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40))
def test_the_median_lies_within_its_interval(ratios: list[float]) -> None:
    found = paired_ratio(ratios, [1.0] * len(ratios))
    assert found.low <= found.median <= found.high


def test_the_interval_of_order_statistics_is_that_of_the_tables() -> None:
    # Of 12 values the third to the tenth hold the median with 96 %, and the fourth to the ninth with 85 % only.
    assert paired_ratio([float(n) for n in range(1, 13)], [1.0] * 12)[1:3] == (3.0, 10.0)


def test_few_pairs_promise_no_more_than_their_extremes() -> None:
    assert paired_ratio([1.0, 2.0, 3.0], [1.0] * 3)[:3] == (2.0, 1.0, 3.0)


def test_no_pairs_are_no_ratio() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_ratio([], [])


def test_each_side_goes_first_as_often() -> None:
    assert [first for first, _ in turns(6)] == [0, 1, 0, 1, 0, 1]


def test_several_workers_are_measured_without_beams() -> None:
    settings = all_settings(precisions=["int8"], workers=[1, 2], beams=[1, 4], rows=[8])
    assert settings == (Setting("int8", 1, 1, 8), Setting("int8", 1, 4, 8), Setting("int8", 2, 1, 8))


def test_sentences_have_the_median_length_and_are_distinct() -> None:
    found = of_one_length([[1, 3], [4, 5, 3], [4, 5, 3], [6, 7, 3], [1, 2, 3, 4]], tokens=None, origin="x")
    assert found.sources == ((4, 5, 3), (6, 7, 3))


def test_a_length_that_no_sentence_has_is_refused() -> None:
    with pytest.raises(ValueError, match="no sentence of 9 tokens; lengths are 2 to 3"):
        of_one_length([[1, 3], [4, 5, 3]], tokens=9, origin="x")


def test_too_few_sentences_are_used_again() -> None:
    assert fill([(1,), (2,)], 5) == [[1], [2], [1], [2], [1]]


def figures() -> dict[str, Any]:
    ratio = Ratio(1.25, 1.2, 1.3, 12)
    settings = all_settings(precisions=["int8", "float32"], workers=[1, 2], beams=[1, 4], rows=[8, 32])
    measured = [Measured(setting=s, ratio=ratio, ours=1250.0, theirs=1000.0, sentences=64) for s in settings]
    agreements = [Agreement(precision="float32", sentences=2, differing=0, tokens=1.0)]
    graphs = {"step": {"runs": 9, "seconds": 0.8, "operators": {"MatMulIntegerToFloat": 0.5}, "nodes": {}}}
    return {
        **as_json(measured, agreements, plan(*settings), SENTENCES),
        "ours": {"name": "Regard", "model": "en-xx/1", "versions": {"onnxruntime": "1"}},
        "theirs": {"name": "CTranslate2", "versions": {"ctranslate2": "4"}},
        "environment": {"command": "regard bench engine", "processor": "a processor", "date": "2026-01-01T00:00:00"},
        "profiles": [{**settings[0]._asdict(), "seconds": 1.0, "graphs": graphs}],
    }


def test_ratios_are_found_by_rows_and_precision() -> None:
    found = figures()
    assert found["rows"] == {"8": {"int8": 1.25, "float32": 1.25}, "32": {"int8": 1.25, "float32": 1.25}}
    assert found["workers_2"]["32"]["int8"] == found["beam_4"]["8"]["int8"] == 1.25
    assert [table.key for table in tables(found)] == ["rows", "beam_4", "workers_2"]


def test_runs_of_different_settings_stand_in_one_table() -> None:
    whole = figures()
    parts = [{**whole, "measured": [cell for cell in whole["measured"] if cell["rows"] == rows]} for rows in (8, 32)]
    for part in parts:
        del part["rows"], part["beam_4"], part["workers_2"]
    found = join(parts)
    assert tables(found) == tables(whole)
    assert found["rows"] == whole["rows"]
    assert found["environment"]["command"] == "regard bench engine\nregard bench engine"
    with pytest.raises(ValueError, match="twice"):
        join([whole, whole])
    with pytest.raises(ValueError, match="other clock"):
        join([whole, {**whole, "clock": "processor"}])


def test_figures_survive_a_file() -> None:
    assert tables(json.loads(json.dumps(figures()))) == tables(figures())


@pytest.mark.parametrize("write", [as_text, partial(as_page_part, picture="images/e.png")])
def test_what_is_written_says_what_was_measured(write: Callable[[dict[str, Any]], str]) -> None:
    text = write(figures())
    for said in (
        "1.25 [1.20, 1.30] 1,250 / 1,000",
        "beam 4",
        "2 workers",
        "0 of 2 sentences differ",
        "50.0 %",
        "20.0 %",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("mapped", "said"), [(False, "CTranslate2 among all 60"), (True, "among the same, by a vocabulary map")]
)
def test_what_each_side_searches_among_is_said_where_it_is_not_all(mapped: bool, said: str) -> None:
    found = figures() | {"tokens": 60, "tokens_searched": 60, "vocabulary_map": mapped}
    assert "searches among" not in as_text(found)
    text = as_text(found | {"tokens_searched": 33})
    assert "Regard searches among the 33 tokens of the target language" in text
    assert said in text


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    draw(figures(), tmp_path / "new" / "engine.png")
    assert (tmp_path / "new" / "engine.png").read_bytes().startswith(b"\x89PNG")


def test_a_part_of_a_page_is_replaced_and_the_rest_stays() -> None:
    page = with_part("# Results\n\nBefore.\n", "bench", "old")
    page = f"{page}\nAfter.\n"
    assert with_part(page, "bench", "new") == page.replace("old", "new")


def test_half_a_pair_of_marks_is_refused() -> None:
    page = with_part("", "bench", "text")
    with pytest.raises(ValueError, match="not one pair"):
        with_part(page.replace("<!-- bench: end -->", ""), "bench", "new")


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    replace_part(tmp_path / "page.md", "bench", "text")
    assert "text" in (tmp_path / "page.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


ECHO = "import sys, json\nfor line in sys.stdin: print(json.dumps({'echo': json.loads(line)}), flush=True)"
REFUSE = 'print(\'{"error": "no such thing"}\', flush=True); input()'


def test_a_process_answers_line_by_line() -> None:
    with LineProcess("echo", [sys.executable, "-c", ECHO]) as process:
        assert process.ask("decode", length=3) == {"echo": {"do": "decode", "length": 3}}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (REFUSE, "it: no such thing"),
        ("import sys; sys.exit('broken')", "it has ended: broken"),
        ("pass", "exit code 0"),
    ],
)
def test_what_a_process_says_last_is_told(script: str, said: str) -> None:
    with LineProcess("it", [sys.executable, "-c", script]) as process, pytest.raises(ProcessFault, match=said):
        process.ask("describe")


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ProcessFault, match="it cannot be started: /nowhere"):
        LineProcess("it", ["/nowhere"])


def parsed(*argv: object) -> Namespace:
    parser = ArgumentParser()
    add_arguments(parser)
    return parser.parse_args([str(argument) for argument in argv])


def test_figures_are_shown_again_from_their_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "engine.json", tmp_path / "results.md"
    path.write_text(json.dumps(figures()))
    assert command(parsed("--from-json", path, "--page", page, "--plot", tmp_path / "images" / "e.png")) == 0
    assert capsys.readouterr().out == as_text(figures())
    assert "(images/e.png)" in page.read_text()


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 2, "--checkpoint"),
        (["--checkpoint", "x", "--pairs", "0"], 2, "--pairs must be at least 1"),
        (["--from-json", "x", "--page", "y.md"], 2, "--plot"),
        (["--from-json", "/nowhere.json"], 1, "/nowhere.json"),
        (["--checkpoint", "x", "--bundle", "/nowhere"], 1, "/nowhere"),
    ],
)
def test_wrong_options_are_told(argv: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(parsed(*argv)) == code
    assert said in capsys.readouterr().err


def test_a_bundle_without_a_precision_to_compare_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("model.safetensors", "config.json"):
        (tmp_path / name).touch()
    found = ["--checkpoint", str(tmp_path), "--ctranslate2-python", sys.executable]
    assert command(parsed(*found, "--bundle", NULL, "--precisions", "int8")) == 1
    assert "has no int8 for the engine" in capsys.readouterr().err


@pytest.mark.parametrize("recovered", [False, True])
def test_engines_are_compared_with_the_same_weights_alone(tmp_path: Path, recovered: bool) -> None:
    weights = b"weights"
    digest = "ab" * 32 if recovered else sha256(weights).hexdigest()
    (tmp_path / "model.safetensors").write_bytes(weights)
    provenance = {"recovered_from": {"checkpoint_sha256": digest}} if recovered else {}
    (tmp_path / "config.json").write_text(json.dumps({"provenance": provenance}), encoding="utf-8")
    check_weights(tmp_path, Path("models/en-xx/1"), digest)
    with pytest.raises(ValueError, match="models/en-xx/1 was not made of the weights in"):
        check_weights(tmp_path, Path("models/en-xx/1"), "cd" * 32)

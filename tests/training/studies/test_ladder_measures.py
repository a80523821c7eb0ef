"""All rungs are measured on the same sentences, and a report survives its file."""

import json
from pathlib import Path

import pytest
from tests.training.toy_ladder import EPOCHS, RECURRENT, write_data, write_rungs

from regard.training.data.corpora import read_multi30k
from regard.training.decoding.alignment import read_alignments
from regard.training.decoding.search import SearchConfig
from regard.training.studies.ladder import lengths as ladder_lengths
from regard.training.studies.ladder import translations as ladder_translations
from regard.training.studies.ladder.measurement import climb, measure, missing_from, pictures
from regard.training.studies.ladder.report import LadderReport, RungReport, read_report, write_report

SEARCH = SearchConfig(beam_size=2, max_length=6)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The runs and the data."""
    return write_rungs(tmp_path_factory.mktemp("runs")), write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def rungs(folders: tuple[Path, Path]) -> tuple[RungReport, ...]:
    return measured(folders)


def measured(folders: tuple[Path, Path]) -> tuple[RungReport, ...]:
    runs, data = folders
    gold = read_alignments(data / "alignments" / "bicici-de-en" / "test.tsv", turned=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder_lengths, "RESAMPLES", 10)
        return measure(climb(runs, RECURRENT), read_multi30k(data), gold, SEARCH, lambda _: None)


def test_rungs_without_attention_have_no_alignment_error(rungs: tuple[RungReport, ...]) -> None:
    plain, fixed, attention = (rung.alignment_error for rung in rungs)
    assert plain is None
    assert fixed is None
    assert attention is not None


def test_longer_pieces_are_the_same_text(rungs: tuple[RungReport, ...]) -> None:
    for rung in rungs:
        assert [each.sources for each in rung.by_parts] == [20, 10, 7, 5]
        assert len({round(each.sources * each.words) for each in rung.by_parts}) <= 3  # but for rounding


def test_each_rung_is_compared_with_the_one_before(rungs: tuple[RungReport, ...]) -> None:
    assert [rung.gain is None for rung in rungs] == [True, False, False]


def test_curves_come_from_the_log(rungs: tuple[RungReport, ...]) -> None:
    [plain, *_] = rungs
    assert [value for _, value in plain.loss_curve] == [4.0, 3.0, 2.0]
    assert plain.loss_curve[-1][0] == EPOCHS * plain.tokens_per_epoch
    assert plain.pace.logged == 200


def test_nothing_is_translated_twice(
    folders: tuple[Path, Path], rungs: tuple[RungReport, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[str]:
        raise AssertionError("translated again")

    monkeypatch.setattr(ladder_translations, "translate", refuse)
    assert [rung.figures for rung in measured(folders)] == [rung.figures for rung in rungs]


def test_other_weights_are_translated_anew(
    folders: tuple[Path, Path], rungs: tuple[RungReport, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folders[0] / "multi30k_plain" / "ladder-translations.json"
    held = json.loads(file.read_text(encoding="utf-8"))
    held["made_by"]["weights"] = "others"
    held["translations"] = dict.fromkeys(held["translations"], "wrong")
    file.write_text(json.dumps(held), encoding="utf-8")
    assert measured(folders)[0].figures == rungs[0].figures


def test_a_report_survives_its_file(folders: tuple[Path, Path], rungs: tuple[RungReport, ...], tmp_path: Path) -> None:
    report = LadderReport(
        rungs=rungs,
        missing=("multi30k_transformer",),
        pictures=pictures(climb(folders[0], RECURRENT), SEARCH),
        test_sets={"test_2016_flickr": 20},
        alignments="two pairs",
        search="beam 2",
        setting={"date": "today"},
    )
    write_report(tmp_path / "ladder.json", report)
    assert read_report(tmp_path / "ladder.json") == report


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 2}'])
def test_another_file_is_no_report(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match="does not hold the figures of a ladder"):
        read_report(tmp_path / "other.json")


def test_a_missing_rung_is_named(tmp_path: Path) -> None:
    write_rungs(tmp_path, RECURRENT[1:])
    assert missing_from(tmp_path) == ["multi30k_plain", "multi30k_transformer"]


def test_rungs_of_different_vocabularies_are_not_compared(tmp_path: Path) -> None:
    write_rungs(tmp_path, RECURRENT[:1])
    write_rungs(tmp_path, RECURRENT[1:2], english=["Other words altogether."])
    with pytest.raises(ValueError, match="multi30k_fixed and multi30k_plain have different vocabularies"):
        climb(tmp_path, RECURRENT[:2])


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    write_rungs(tmp_path, RECURRENT[:1])
    (tmp_path / RECURRENT[0]).rename(tmp_path / RECURRENT[1])
    with pytest.raises(ValueError, match="a model of multi30k_plain"):
        climb(tmp_path, RECURRENT[1:2])

"""The ablation compares what it says, keeps what is done, and rebuilds its table and picture from it."""

# torch types manual_seed only in part.
# pyright: reportUnknownMemberType=false

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from regard.training.data.toy_data import TASKS
from regard.training.models.transformer import Transformer
from regard.training.recipes.toy_models import toy_model
from regard.training.studies import ablation
from regard.training.studies.ablation import BEGIN, END, VARIANTS, Result, insert, main, table, with_output_mlp

PAGE = f"before\n{BEGIN}\nold\n{END}\nafter\n"


def result(variant: str, task: str, seed: int, exact: float) -> Result:
    return Result(variant=variant, task=task, seed=seed, updates=3, parameters=1234, exact=exact)  # pyright: ignore[reportArgumentType]  from TASKS


def names() -> list[str]:
    return [f"{variant.family}, {variant.name}" for variant in VARIANTS]


def test_a_line_has_mean_and_range_of_each_task() -> None:
    found = [result("one", "copy", seed, exact) for seed, exact in ((1, 90.0), (2, 100.0), (3, 95.0))]
    assert table([*found, result("one", "sums", 1, 40.0)]).splitlines() == [
        "| model | weights | copy | sums |",
        "|---|---|---|---|",
        "| one | 1,234 | 95 (90 to 100) | 40 (40 to 40) |",
    ]


def test_the_table_is_all_that_changes_on_the_page() -> None:
    assert insert(PAGE, "new") == PAGE.replace("old", "new")
    assert insert(insert(PAGE, "new"), "old") == PAGE


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has to hold"):
        insert("nothing here", "new")


def test_the_deeper_transformer_has_as_many_weights_as_the_one_with_mlps() -> None:
    weights = {
        variant.name: sum(parameter.numel() for parameter in variant.make(30, 20).parameters())
        for variant in VARIANTS
        if variant.family == "Transformer"
    }
    assert 0.9 < weights["no MLP, more layers"] / weights["MLP in every layer"] < 1.15
    assert weights["no MLP"] < weights["one MLP, before the output"] < weights["MLP in every layer"]


def test_one_mlp_before_the_output_is_part_of_every_step() -> None:
    torch.manual_seed(1)
    model = toy_model("transformer", 12, 9, feed_forward=0)
    assert isinstance(model, Transformer)
    source, length, target = torch.tensor([[5, 6, 3]]), torch.tensor([3]), torch.tensor([[2, 5]])
    model.eval()
    before, _ = model(source, length, target)
    features, _ = with_output_mlp(model)(source, length, target)
    assert not torch.allclose(features, before)
    memory, state = model.encode(source, length)
    scores, _, _ = model.step(target[:, 0], state, memory)
    torch.testing.assert_close(scores, torch.log_softmax(model.output(features[:, 0]), dim=1))


def test_the_command_runs_what_is_missing_and_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [(name, task) for name in names() for task in TASKS]
    done = [result(name, task, 1, 50.0) for name, task in wanted[1:]]
    runs, page, picture = tmp_path / "runs.json", tmp_path / "page.md", tmp_path / "images" / "picture.png"
    runs.write_text(json.dumps([asdict(each) for each in done]))
    page.write_text(PAGE)
    measured: list[tuple[str, str, int]] = []

    def measure(variant: ablation.Variant, task: str, seed: int, *, updates: int) -> Result:
        measured.append((f"{variant.family}, {variant.name}", task, seed))
        return result(measured[-1][0], task, seed, 100.0)

    monkeypatch.setattr(ablation, "measure", measure)
    options = ["--runs", str(runs), "--page", str(page), "--picture", str(picture), "--seeds", "1", "--updates", "3"]
    assert main(options) == 0
    assert measured == [(*wanted[0], 1)]
    assert len(json.loads(runs.read_text())) == len(wanted)
    assert f"| {wanted[0][0]} | 1,234 | 100 (100 to 100) | 50" in page.read_text()
    assert picture.stat().st_size > 1000
    assert main(options) == 0
    assert len(measured) == 1


def test_one_run_is_measured() -> None:
    found = ablation.measure(VARIANTS[1], "copy", 1, updates=2)
    assert (found.task, found.updates) == ("copy", 2)
    assert 0.0 <= found.exact <= 100.0

"""Measures on toys what the MLPs of a Transformer and of a recurrent readout do.

Run it by `python -m regard.training.studies.ablation`.
It does not know how a toy is learnt. Every run that is done is kept, so that the command goes on where it was stopped.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from regard.atomic import write_text
from regard.training.data.toy_data import TASKS, Task
from regard.training.families import TrainedModel
from regard.training.models.transformer import Transformer
from regard.training.recipes.toy_models import toy_model
from regard.training.studies.toy_runs import ToyRun, learn, right_by_length

BEGIN, END = "<!-- table of regard.training.studies.ablation -->", "<!-- end of the table -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A model of which one part is there, is not there, or is somewhere else."""

    name: str
    family: str  # what it is compared within
    make: Callable[[int, int], TrainedModel]


def with_output_mlp(model: Transformer, *, size: int = 128) -> Transformer:
    """Put one MLP, as a recurrent readout is, between a Transformer's last layer and its output; return the model."""
    dim = model.config.dim
    cast(Any, model).decoder_norm = nn.Sequential(
        model.decoder_norm, nn.Linear(dim, size), nn.ReLU(), nn.Linear(size, dim)
    )
    return model


def _bare(vocabulary: int, output: int, *, layers: int) -> Transformer:
    model = toy_model("transformer", vocabulary, output, feed_forward=0, layers=layers)
    assert isinstance(model, Transformer)
    return model


VARIANTS = (
    Variant(
        name="MLP in every layer",
        family="Transformer",
        make=lambda vocabulary, output: toy_model("transformer", vocabulary, output),
    ),
    Variant(
        name="no MLP",
        family="Transformer",
        make=lambda vocabulary, output: _bare(vocabulary, output, layers=2),
    ),
    Variant(
        name="no MLP, more layers",
        family="Transformer",
        make=lambda vocabulary, output: _bare(vocabulary, output, layers=5),
    ),
    Variant(
        name="one MLP, before the output",
        family="Transformer",
        make=lambda vocabulary, output: with_output_mlp(_bare(vocabulary, output, layers=2)),
    ),
    Variant(
        name="MLP readout",
        family="recurrent",
        make=lambda vocabulary, output: toy_model("attention", vocabulary, output, readout="mlp"),
    ),
    Variant(
        name="linear readout",
        family="recurrent",
        make=lambda vocabulary, output: toy_model("attention", vocabulary, output, readout="linear"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run came to."""

    variant: str  # its family and name
    task: Task
    seed: int
    updates: int  # learnt in, twice as many for "pick"
    parameters: int
    exact: float  # percent of unseen sequences answered without a mistake


def measure(variant: Variant, task: Task, seed: int, *, updates: int) -> Result:
    """Train a variant on a task and ask it for sequences that it has not seen."""
    # What picks has to learn to work out where to look first.
    run = ToyRun(task=task, seed=seed, updates=2 * updates if task == "pick" else updates)
    learnt = learn(run, variant.make)
    # Lengths differ in how many of the unseen sequences have them; each counts the same.
    exact = 100 * statistics.mean(right_by_length(learnt).values())
    parameters = sum(parameter.numel() for parameter in learnt.model.parameters())
    return Result(
        variant=_full_name(variant), task=task, seed=seed, updates=updates, parameters=parameters, exact=round(exact, 2)
    )


def table(results: Sequence[Result]) -> str:
    """Return the results in Markdown: a line for each variant, mean and range over seeds for each task."""
    tasks = [task for task in TASKS if any(result.task == task for result in results)]
    lines = [f"| model | weights | {' | '.join(tasks)} |", "|---|" + "---|" * (len(tasks) + 1)]
    for name in dict.fromkeys(result.variant for result in results):
        cells: list[str] = []
        for task in tasks:
            exact = [result.exact for result in results if (result.variant, result.task) == (name, task)]
            cells.append(f"{statistics.mean(exact):.0f} ({min(exact):.0f} to {max(exact):.0f})" if exact else "")
        weights = max(result.parameters for result in results if result.variant == name)
        lines.append(f"| {name} | {weights:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def insert(page: str, made: str) -> str:
    """Return the page with its table replaced; ValueError where the page has no place for one."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"The page has to hold {BEGIN} and {END} once each.")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw a panel for each task, with a dot for each run and its variants' means in figures."""
    from matplotlib.figure import Figure  # here, because nothing else needs it and it loads slowly

    tasks = [task for task in TASKS if any(result.task == task for result in results)]
    names = list(dict.fromkeys(result.variant for result in results))
    figure = Figure(figsize=(3.1 * len(tasks) + 2.4, 0.46 * len(names) + 1.3), layout="constrained")
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for panel, task in zip(panels, tasks, strict=True):
        for place, name in enumerate(names):
            exact = [result.exact for result in results if (result.variant, result.task) == (name, task)]
            if not exact:
                continue
            # Blue and vermilion of Okabe and Ito, told apart by every kind of colour vision.
            colour = "#0072B2" if name.startswith("Transformer") else "#D55E00"
            panel.hlines(place, min(exact), max(exact), color=colour, linewidth=2, alpha=0.4)
            panel.plot(exact, [place] * len(exact), "o", color=colour, markersize=6, alpha=0.7)
            panel.text(107, place, f"{statistics.mean(exact):.0f}", va="center", color=colour)
        panel.set_title(task)
        panel.set_xlim(-4, 122)
        panel.set_xticks([0, 50, 100])
        panel.set_xlabel("answers without a mistake, %")
        panel.grid(axis="x", alpha=0.3)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)  # pyright: ignore[reportUnknownMemberType]  matplotlib types it in part


def _full_name(variant: Variant) -> str:
    return f"{variant.family}, {variant.name}"


def _read(path: Path) -> list[Result]:
    return [Result(**each) for each in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def _write(path: Path, results: Sequence[Result]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps([asdict(result) for result in results], indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m regard.training.studies.ablation", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/ablation.json"), help="where to keep what is done")
    parser.add_argument("--page", type=Path, default=Path("docs/models.md"), help="whose table to replace")
    parser.add_argument("--picture", type=Path, default=Path("docs/images/models-mlp.png"), help="to draw")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each variant on each task (default: %(default)s)")
    parser.add_argument(
        "--updates", type=int, default=350, help="to learn in, twice as many for pick (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    results = _read(args.runs)
    done = {(result.variant, result.task, result.seed, result.updates) for result in results}
    for task in TASKS:
        for seed in range(1, args.seeds + 1):
            for variant in VARIANTS:
                if (_full_name(variant), task, seed, args.updates) in done:
                    continue
                result = measure(variant, task, seed, updates=args.updates)
                results.append(result)
                _write(args.runs, results)
                sys.stdout.write(f"{result.variant}, {task}, seed {seed}: {result.exact:.1f} %\n")
                sys.stdout.flush()
    order = [_full_name(variant) for variant in VARIANTS]
    shown = [result for result in results if result.updates == args.updates and result.seed <= args.seeds]
    shown.sort(key=lambda result: order.index(result.variant))
    try:
        args.page.write_text(insert(args.page.read_text(encoding="utf-8"), table(shown)), encoding="utf-8")
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    draw(shown, args.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())

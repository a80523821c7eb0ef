"""Every rung learns the toys that it can within seconds; without attention, what is long goes wrong."""

# torch types set_num_threads only in part.
# pyright: reportUnknownMemberType=false

import statistics
from collections.abc import Iterator

import pytest
import torch

from regard.training.data.toy_data import SUMMANDS, TASKS, WORDS, Task, answer, make_toy, read_toy
from regard.training.recipes.catalogue import RECIPES
from regard.training.recipes.toy_models import RUNGS, Rung, toy_model
from regard.training.studies.toy_runs import Learnt, ToyRun, learn, right_by_length


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Sums in the same order on any machine, and no fight over a shared core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def learnt(rung: Rung, run: ToyRun) -> Learnt:
    return learn(run, lambda vocabulary, output: toy_model(rung, vocabulary, output))


@pytest.mark.parametrize("task", ["copy", "reverse"])
@pytest.mark.parametrize("rung", ["attention", "lstm", "transformer"])
def test_rungs_with_attention_learn_it(rung: Rung, task: Task) -> None:
    right = right_by_length(learnt(rung, ToyRun(task=task, updates=250)))
    assert statistics.mean(right.values()) > 0.9, right


@pytest.fixture(scope="module")
def by_rung() -> dict[Rung, dict[int, float]]:
    """Share of right answers by length, of rungs that learnt to reverse 1 to 10 words in as many updates."""
    asked = make_toy("reverse", pairs=600, longest=10, seed=99).train
    run = ToyRun(task="reverse", longest=10, updates=320)
    rungs: tuple[Rung, ...] = ("no_attention", "fixed", "attention")
    return {rung: right_by_length(learnt(rung, run), asked) for rung in rungs}


@pytest.mark.parametrize("rung", ["no_attention", "fixed"])
def test_reverse_without_attention_fails_with_length(by_rung: dict[Rung, dict[int, float]], rung: Rung) -> None:
    short = statistics.mean(by_rung[rung][length] for length in (1, 2))
    long = statistics.mean(by_rung[rung][length] for length in (8, 9, 10))
    assert short > 0.8, by_rung
    assert long < 0.3, by_rung


def test_reverse_with_attention_holds_up_with_length(by_rung: dict[Rung, dict[int, float]]) -> None:
    long = {rung: statistics.mean(right[length] for length in (8, 9, 10)) for rung, right in by_rung.items()}
    assert long["attention"] > max(long["no_attention"], long["fixed"]) + 0.5, by_rung


def test_the_targets_are_what_the_task_says() -> None:
    words = ["bee", "cat", "ala", "dog"]
    assert answer("copy", words) == words
    assert answer("reverse", words) == ["dog", "ala", "cat", "bee"]
    # 1, 1 + 2, 2 + 0, 0 + 3, modulo 4
    assert answer("sums", words) == ["bee", "dog", "cat", "dog"]
    assert answer("pick", words) == ["cat", "dog", "ala", "dog"]


def test_a_sum_says_nothing_of_either_summand_alone() -> None:
    known = WORDS[:SUMMANDS]
    for left in known:
        assert {answer("sums", [left, word])[1] for word in known} == set(known)
    for word in known:
        assert {answer("sums", [left, word])[1] for left in known} == set(known)


@pytest.mark.parametrize("task", TASKS)
def test_sequences_are_the_same_for_a_seed_and_have_all_lengths(task: Task) -> None:
    first, again = make_toy(task, pairs=200, longest=5), make_toy(task, pairs=200, longest=5)
    assert first == again
    # A place that a sum names has to be there.
    shortest = SUMMANDS if task == "pick" else 1
    assert {len(pair.source.split()) for pair in first.train} == set(range(shortest, 6))


def test_to_reverse_or_to_copy_is_asked_for_by_a_word() -> None:
    assert read_toy(reverse=True) == make_toy("reverse")
    assert read_toy(reverse=False) == make_toy("copy")


def test_unknown_tasks_and_rungs_are_refused_with_their_names() -> None:
    with pytest.raises(ValueError, match="task is 'sort', but it is one of copy, reverse, sums, pick"):
        make_toy("sort")  # pyright: ignore[reportArgumentType]  wrong on purpose
    with pytest.raises(ValueError, match="rung is 'cnn', but it is one of no_attention, fixed"):
        toy_model("cnn", 12, 9)  # pyright: ignore[reportArgumentType]  wrong on purpose


@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_has_a_recipe(rung: Rung) -> None:
    # The recipe without attention keeps the name that runs and commands have.
    named = {"attention": "toy_reverse", "no_attention": "toy_reverse_plain"}
    name = named.get(rung, f"toy_reverse_{rung}")
    recipe = RECIPES[name]()
    assert recipe.name == name
    assert type(recipe.model(60, 50)) is type(toy_model(rung, 60, 50))

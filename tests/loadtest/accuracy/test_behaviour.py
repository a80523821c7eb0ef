"""Behaviour cases judge answers as a person would, and the embedded translator's are counted."""

from __future__ import annotations

import json

import pytest

from regard.loadtest.accuracy.behaviour import judge
from regard.loadtest.accuracy.behaviour_cases import Case, write_cases
from regard.loadtest.commands import main


def cases_of(kind: str, language: str = "es") -> list[Case]:
    """Return some cases of a kind."""
    return [case for case in write_cases(language, count=8, seed=1) if case.kind == kind]


def kept(case: Case, answer: str, beside: str = "") -> bool:
    """Return whether an answer keeps what a case tests."""
    return case.kept({case.source: answer, case.beside: beside})


def figure_of(case: Case) -> str:
    """Return the word of a source that begins with a digit, without a full stop."""
    return next(word for word in case.source.split() if word[0].isdigit()).rstrip(".")


def test_a_figure_is_kept_whole_or_not_at_all() -> None:
    case = cases_of("3 digits")[0]
    figure = figure_of(case)
    assert kept(case, f"Hay {figure} sillas.")
    assert not kept(case, f"Hay {figure}0 sillas.")
    assert not kept(case, f"Hay {figure[:-1]} sillas.")
    assert not kept(case, f"Hay {figure}.5 sillas.")


def test_a_figure_of_one_digit_may_be_a_word() -> None:
    words = ("dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve")
    for case in cases_of("1 digit"):
        assert kept(case, f"Hay {words[int(figure_of(case)) - 2]} sillas.")


def test_a_decimal_may_have_the_separator_of_the_other_language() -> None:
    case = cases_of("decimal")[0]
    figure = figure_of(case)
    assert kept(case, f"Cuesta {figure.replace('.', ',')} euros.")
    assert not kept(case, f"Cuesta {figure.replace('.', '')} euros.")


def test_a_name_is_kept_as_a_whole_word() -> None:
    case = cases_of("name")[0]
    name = case.source.split()[-1].rstrip(".")
    assert kept(case, f"Me llamo {name}.")
    assert not kept(case, f"Me llamo {name}ito.")


def test_marks_must_not_change_words() -> None:
    case = cases_of("curly quotes")[0]
    assert kept(case, '"No lo sé."', "No lo sé.")
    assert not kept(case, "York no lo sabe.", "No lo sé.")
    assert not kept(case, "", "")


@pytest.mark.parametrize(("language", "right", "wrong"), [("es", "¡Hola!", "¡Ah!"), ("de", "Hallo.", "Hallt!")])
def test_greetings_have_answers(language: str, right: str, wrong: str) -> None:
    case = cases_of("greeting", language)[0]
    assert kept(case, right)
    assert not kept(case, wrong)


def test_a_negation_needs_a_word_that_negates() -> None:
    case = cases_of("negation")[0]
    assert kept(case, "No me gusta esta sopa.")
    assert not kept(case, "Noto que me gusta esta sopa.")


def test_cases_are_the_same_for_a_seed() -> None:
    first, again, other = ([case.source for case in write_cases("fr", count=5, seed=seed)] for seed in (1, 1, 2))
    assert first == again != other


def test_shares_show_some_of_what_was_lost() -> None:
    cases = cases_of("name")
    share = judge(cases, {case.source: "nada" for case in cases})["name"]
    assert (share.kept, share.cases, len(share.lost), share.percent) == (0, 8, 3, 0.0)


def test_the_embedded_translator_is_counted_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accuracy", "--behaviour", "2", "--target", "es", "--json"], prog="regard bench") == 0
    found = json.loads(capsys.readouterr().out)["behaviour"]
    assert found["negation"]["es"]["percent"] == 100
    assert found["no-break space"]["es"]["percent"] == 100
    assert {shares["es"]["cases"] for shares in found.values()} <= {1, 2}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--behaviour", "0"], "at least 1"),
        (["--behaviour", "--tatoeba"], "its own sentences"),
        (["--behaviour", "1", "--target", "ko"], "no behaviour cases"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["accuracy", *options], prog="regard bench") in (1, 2)
    assert said in capsys.readouterr().err

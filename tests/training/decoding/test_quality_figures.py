"""Scoring: references of different numbers, figures that can be repeated."""

from regard.training.data.translation_data import References
from regard.training.decoding.evaluate import score

REFERENCES = [
    References("We are eating bread.", ("Estamos comiendo pan.", "Comemos pan ahora mismo.")),
    References("I do not know where it is.", ("No sé dónde está eso.",)),
]


def figures(translations: list[str]) -> dict[str, float]:
    return {each.metric: each.value for each in score(translations, REFERENCES, test_set="two", search="none")}


def test_any_reference_of_a_source_is_right() -> None:
    found = figures(["Comemos pan ahora mismo.", "No sé dónde está eso."])
    assert {name: round(value, 6) for name, value in found.items()} == {"bleu": 100.0, "chrf": 100.0, "exact": 100.0}


def test_a_reference_of_another_source_is_wrong() -> None:
    found = figures(["No sé dónde está eso.", "Estamos comiendo pan."])
    assert found["bleu"] < 10
    assert found["exact"] == 0.0


def test_figures_say_how_they_were_measured() -> None:
    for figure in score(["a", "b"], REFERENCES, test_set="two", search="none"):
        assert figure.signature
        assert (figure.test_set, figure.search) == ("two", "none")

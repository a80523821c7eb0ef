"""Where sentences begin and end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.server.text.segmentation
from regard.server.text.segmentation import blank_invisible, drop_invisible, find_sentences


def sentences(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in find_sentences(text, language=language)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("Hello", ["Hello"]),
        ("Walk on, walk on! The rain will stop.", ["Walk on, walk on!", "The rain will stop."]),
        (
            "Dr. Smith arrived at 5 p.m. with Mr. Jones, i.e. the owner. They paid 3.50 each.",
            ["Dr. Smith arrived at 5 p.m. with Mr. Jones, i.e. the owner.", "They paid 3.50 each."],
        ),
        ("Write to a.b@example.org. Then call.", ["Write to a.b@example.org.", "Then call."]),
        ("Wait... what? No.", ["Wait... what?", "No."]),
        ('He said "Stop!" and left. Good.', ['He said "Stop!" and left.', "Good."]),
        ("We packed. \U0001f606 Then we left.", ["We packed.", "\U0001f606 Then we left."]),
        ("One\nTwo\r\nThree\r\n\r\nFour\u2028Five", ["One", "Two", "Three", "Four", "Five"]),
        ("A line that wraps\nhere. It ends.", ["A line that wraps", "here.", "It ends."]),
        ("1. First item. 2. Second item.", ["1. First item.", "2. Second item."]),
        ("  Leading.  Trailing.  ", ["Leading.", "Trailing."]),
        ("\u4f60\u597d\u3002\u518d\u89c1\uff01", ["\u4f60\u597d\u3002", "\u518d\u89c1\uff01"]),
        ("See https://example.org/a.b?c=d. Now!", ["See https://example.org/a.b?c=d.", "Now!"]),
    ],
)
def test_texts_are_cut_into_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_forty_sentences_are_forty() -> None:
    text = " ".join(f"Sentence number {number} says that box {number} is full." for number in range(1, 41))
    assert len(sentences(text)) == 40


def test_an_unknown_language_has_the_general_rules() -> None:
    assert sentences("One is here. Two is there.", "zz-ZZ") == ["One is here.", "Two is there."]


def test_white_space_that_the_library_cannot_stand_does_not_stop_it() -> None:
    assert sentences("B\u00a0. C is here. It ends.")[-1] == "It ends."


def test_a_long_line_is_cut_as_a_short_one_and_the_library_never_gets_much_of_it_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = regard.server.text.segmentation.sentencex.get_sentence_boundaries
    asked: list[int] = []

    def count(language: str, text: str) -> object:
        asked.append(len(text))
        return ask(language, text)

    monkeypatch.setattr(regard.server.text.segmentation.sentencex, "get_sentence_boundaries", count)
    expected = [f"Mr. Smith paid 3.50 for number {number}, e.g. today." for number in range(300)]
    assert sentences(" ".join(expected)) == expected
    # With unbalanced quotes its time grows as the square of what it gets.
    assert max(asked) <= 1024
    assert sum(asked) < 3 * sum(map(len, expected))


@pytest.mark.parametrize("line", ['"\u300c' * 8192, "a" * 5000, "word " * 2000, "One. " + "x" * 3000 + " Two. Three."])
def test_a_long_line_without_sentences_loses_nothing(line: str) -> None:
    assert "".join(sentences(line)).replace(" ", "") == line.replace(" ", "")


def test_a_line_on_which_the_library_panics_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):  # as pyo3 calls it
        pass

    def panic(language: str, text: str) -> object:
        raise PanicException

    monkeypatch.setattr(regard.server.text.segmentation.sentencex, "get_sentence_boundaries", panic)
    assert sentences("One. Two.\nThree.") == ["One. Two.", "Three."]


def test_what_else_is_raised_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(language: str, text: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(regard.server.text.segmentation.sentencex, "get_sentence_boundaries", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sentences("One. Two.")


def test_whatever_the_library_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def nonsense(language: str, text: str) -> object:
        return [{"start_index": start} for start in (0, 5, 3, 5, 900, -4)]

    monkeypatch.setattr(regard.server.text.segmentation.sentencex, "get_sentence_boundaries", nonsense)
    assert sentences("One. Two.") == ["One.", "Two."]


@settings(deadline=None)
@given(st.text(), st.sampled_from(["en", "es", "de", "ja", "zz", ""]))
def test_sentences_hold_all_but_white_space_in_order(text: str, language: str) -> None:
    found = find_sentences(text, language=language)

    assert "".join("".join(text[start:end].split()) for start, end in found) == "".join(text.split())
    for start, end in found:
        assert text[start:end] == text[start:end].strip() != ""


@settings(deadline=None)
@given(st.text())
def test_blanking_keeps_offsets_and_dropping_leaves_the_rest(text: str) -> None:
    assert len(blank_invisible(text)) == len(text)
    assert blank_invisible(text).split() == blank_invisible(blank_invisible(text)).split()
    assert drop_invisible(text).strip() == blank_invisible(drop_invisible(text)).strip()


def test_control_characters_and_byte_order_marks_are_blank() -> None:
    assert blank_invisible("\ufeffa\x00b\x1b[0m\x7f\x85\x9bc\td\n") == " a b [0m   c\td\n"
    assert drop_invisible("\x00 \x1b") == " "
    assert drop_invisible("\x00") == " "
    assert drop_invisible("") == ""

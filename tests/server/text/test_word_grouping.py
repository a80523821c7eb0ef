"""Which tokens make a word."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.server.text.word_grouping import group_tokens


def words_of(marked: str) -> list[str]:
    """Words of a text whose tokens are set apart by |, as strings; white space belongs to no token."""
    text = marked.replace("|", "")
    spans: list[tuple[int, int]] = []
    position = 0
    for token in marked.split("|"):
        start = position + len(token) - len(token.lstrip())
        spans.append((start, max(start, position + len(token.rstrip()))))
        position += len(token)
    return [text[spans[first][0] : spans[first + count - 1][1]] for first, count in group_tokens(text, spans)]


@pytest.mark.parametrize(
    ("marked", "words"),
    [
        ("We| eat| bre|ad|.", ["We", "eat", "bread", "."]),
        ("Donau|dampf|schiff| f|ährt", ["Donaudampfschiff", "fährt"]),
        ("a|  b", ["a", "b"]),
        ("  lead|ing", ["leading"]),
        ("(|well|)|,| ok|!|!", ["(", "well", ")", ",", "ok", "!", "!"]),
        ("it|'|s| l|'été", ["it's", "l'été"]),
        ("it's| fine", ["it's", "fine"]),
        ("'|quoted|'", ["'", "quoted", "'"]),
        ("'|tis", ["'", "tis"]),
        ("3|.|5|0| 1|,|1|5|3|.", ["3.50", "1,153", "."]),
        ("e|.|g|.| x", ["e.g", ".", "x"]),
        ("end|.| Next", ["end", ".", "Next"]),
        ("well|-|known", ["well", "-", "known"]),
        ("well-|known", ["well-", "known"]),
        ("a|_|b|1", ["a_b1"]),
        ("a| |b", ["a", "b"]),
        ("日|本|語|も", ["日", "本", "語", "も"]),
        ("日本|語", ["日本", "語"]),
        ("カ|タカ|ナー|です", ["カタカナー", "です"]),
        ("use| Py|Torch|训练|模型|，|ok", ["use", "PyTorch", "训练", "模型", "，", "ok"]),  # noqa: RUF001 (that comma is meant)
        ("한국|어| 문장", ["한국어", "문장"]),
        ("ภาษา|ไทย", ["ภาษา", "ไทย"]),
        ("q|\u0303|u", ["q\u0303u"]),
        ("हि|न्दी", ["हिन्दी"]),
        ("\u2764|\ufe0f|x", ["\u2764\ufe0f", "x"]),
        ("hi|\U0001f642|you", ["hi", "\U0001f642", "you"]),
        ("¿|Cómo| están|?", ["¿", "Cómo", "están", "?"]),
        ("5| %|$|x", ["5", "%", "$", "x"]),
        ("", [""]),
    ],
)
def test_tokens_are_grouped_into_words(marked: str, words: list[str]) -> None:
    assert words_of(marked) == words


def test_a_mark_of_space_goes_with_the_token_after_it() -> None:
    assert group_tokens("a b", [(0, 1), (2, 2), (2, 3)]) == [(0, 1), (1, 2)]


def test_a_mark_of_space_at_the_start_makes_no_word_of_its_own() -> None:
    assert group_tokens("ab", [(0, 0), (0, 1), (1, 2)]) == [(0, 3)]


def test_no_tokens_make_no_words() -> None:
    assert group_tokens("", []) == []


@settings(deadline=None)
@given(st.text(), st.lists(st.integers(0, 100)))
def test_every_token_is_in_exactly_one_word_and_words_hold_no_space(text: str, cuts: list[int]) -> None:
    text = text.strip()
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    spans: list[tuple[int, int]] = []
    for start, end in pairwise(bounds):
        # As a tokenizer would give them: cut further wherever there is white space.
        pieces = re.finditer(r"\S+", text[start:end])
        spans += [(start + piece.start(), start + piece.end()) for piece in pieces]
    words = group_tokens(text, spans)

    assert [token for first, count in words for token in range(first, first + count)] == list(range(len(spans)))
    for first, count in words:
        assert count >= 1
        assert not re.search(r"\s", text[spans[first][0] : spans[first + count - 1][1]])


@settings(deadline=None)
@given(st.lists(st.sampled_from(["ab", "c", ".", "1", "日", "'"]), min_size=1), st.integers(1, 5))
def test_how_much_space_there_is_does_not_matter(tokens: list[str], width: int) -> None:
    def group(space: str) -> list[tuple[int, int]]:
        text, spans = "", list[tuple[int, int]]()
        for token in tokens:
            spans.append((len(text), len(text) + len(token)))
            text += token + space
        return group_tokens(text, spans)

    assert group(" " * width) == group(" ") == [(index, 1) for index in range(len(tokens))]

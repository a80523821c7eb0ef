"""Alignments on a terminal: every word once, wrapped, and nothing that could steer the terminal."""

import re

from hypothesis import given
from hypothesis import strategies as st

from regard.client.drawing.terminal import alignment_lines, display_width, one_line, visible
from regard.client.results import Alignment, Hypothesis, ModelReference, Segment, Span, Timing, Translation, Word


def words(*texts: str) -> tuple[Word, ...]:
    return tuple(Word(text=text, span=Span(0, 0), first_token=place, token_count=1) for place, text in enumerate(texts))


def translation(sources: list[str], targets: list[str], links: list[tuple[int, int]]) -> Translation:
    """Return a translation of one sentence; links are (source, target), the end of sentence comes after the words."""
    source_words = words(*sources, "")
    alignments = tuple(
        Alignment(
            source_word=source,
            target_word=target,
            source_text=source_words[source].text,
            target_text=targets[target],
            source_span=Span(0, 0),
            target_span=Span(0, 0),
            weight=1.0,
        )
        for source, target in links
    )
    hypothesis = Hypothesis(
        text=" ".join(targets),
        score=0.0,
        finish_reason="end",
        tokens=(),
        words=words(*targets),
        end_log_probability=0.0,
        alignments=alignments,
        attention=None,
    )
    segment = Segment(
        text=" ".join(sources),
        source_span=Span(0, 0),
        source_tokens=(),
        source_words=source_words,
        hypotheses=(hypothesis,),
        timing=Timing(queue_seconds=0, encode_seconds=0, decode_seconds=0, steps=0, mean_batch_rows=0),
    )
    model = ModelReference(name="toy", version="1", digest="", profile="cpu")
    return Translation(text=hypothesis.text, segments=(segment, segment), error=None, model=model)


BREAD = translation(["We", "are", "eating", "bread"], ["Estamos", "comiendo", "pan"], [(1, 0), (2, 1), (3, 2)])


def test_every_source_word_shows_what_came_of_it() -> None:
    lines = alignment_lines(BREAD, width=100, colour=False)
    assert lines == ["  We→ø  are→Estamos  eating→comiendo  bread→pan"] * 2


def test_several_target_words_are_joined() -> None:
    lines = alignment_lines(translation(["signed"], ["se", "firmó"], [(0, 0), (0, 1)]), width=100, colour=False)
    assert lines[0] == "  signed→se+firmó"


def test_words_that_look_at_the_end_of_sentence_come_last() -> None:
    lines = alignment_lines(translation(["a"], ["b", "c"], [(1, 0), (0, 1)]), width=100, colour=False)
    assert lines[0] == "  a→c  ø→b"


def test_lines_are_as_wide_as_the_terminal_at_most() -> None:
    lines = alignment_lines(BREAD, width=30, colour=False)
    assert lines[:2] == ["  We→ø  are→Estamos", "  eating→comiendo  bread→pan"]


def test_colours_take_no_room() -> None:
    coloured = alignment_lines(BREAD, width=30, colour=True)
    assert "\x1b[" in coloured[0]
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == alignment_lines(BREAD, width=30, colour=False)


def test_words_cannot_steer_the_terminal() -> None:
    lines = alignment_lines(translation(["a\x1b[2J"], ["b\nc"], [(0, 0)]), width=100, colour=False)
    assert lines[0] == "  a\ufffd[2J→b c"


def test_wide_characters_count_twice_and_accents_not() -> None:
    assert display_width("日本") == 4
    assert display_width("cafe\u0301") == 4


@given(st.text())
def test_one_line_is_one_line_for_everybody(text: str) -> None:
    assert len(one_line(text)) == len(text)
    assert len((one_line(text) + "x").splitlines()) == 1


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_visible_text_holds_no_control_character_but_tabs(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", visible(text))

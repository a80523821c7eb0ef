"""Requests are made beforehand: the right texts with the right options, drawn in the wanted shares, again and again."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.corpus import BUILT_IN_CLASSES, LENGTHS, TrafficClass, build_corpus, parse_classes, read_sentences
from regard.v1.translation_pb2 import TranslateRequest


@pytest.mark.parametrize("name", BUILT_IN_CLASSES)
def test_every_built_in_class_finds_sentences_of_its_length(name: str) -> None:
    corpus = build_corpus(sentences=read_sentences(), classes=[BUILT_IN_CLASSES[name]], seed=1)
    shortest, longest = LENGTHS[BUILT_IN_CLASSES[name].length]
    texts = [text for payload in corpus.payloads for text in TranslateRequest.FromString(payload.body).texts]
    assert texts
    assert all(shortest <= len(text.split()) <= longest for text in texts)


def test_a_payload_asks_for_what_its_class_says() -> None:
    traffic = TrafficClass(name="all", texts=3, beam_size=4, attention=True, model="m")
    [payload, *_] = build_corpus(sentences=["a b"], classes=[traffic], seed=1).payloads
    request = TranslateRequest.FromString(payload.body)
    assert (len(request.texts), request.decoding.beam_size, request.model) == (3, 4, "m")
    assert request.HasField("attention")


def test_a_plain_class_leaves_all_choices_to_the_server() -> None:
    [payload] = build_corpus(sentences=["a"], classes=[TrafficClass(name="plain")], seed=1).payloads
    assert TranslateRequest.FromString(payload.body) == TranslateRequest(texts=["a"])


@given(seed=st.integers(min_value=0, max_value=1000), worker=st.integers(min_value=0, max_value=3))
def test_the_same_seed_draws_the_same_payloads(seed: int, worker: int) -> None:
    corpus = build_corpus(sentences=read_sentences(), classes=parse_classes("short=2,long=1"), seed=seed)
    first, second = (corpus.draw(count=40, seed=seed, worker=worker).tolist() for _ in range(2))
    assert first == second


def test_classes_are_drawn_by_their_weights() -> None:
    corpus = build_corpus(sentences=read_sentences(), classes=parse_classes("short=3,long=1"), seed=1)
    indices: list[int] = corpus.draw(count=4000, seed=1).tolist()
    drawn = Counter(corpus.payloads[i].name for i in indices)
    assert abs(drawn["short"] / 4000 - 0.75) < 0.05


@pytest.mark.parametrize("text", ["shrot", "short=0", "short=-1", "short=x", "short,short", ""])
def test_a_mistake_in_the_classes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"class|weight|could not convert"):
        parse_classes(text)


def test_a_class_without_fitting_sentence_is_refused() -> None:
    with pytest.raises(ValueError, match="no sentence has 17"):
        build_corpus(sentences=["too short"], classes=parse_classes("long"), seed=1)


def test_sentences_of_a_file_are_its_lines_without_blank_ones(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_text("one\u2028still one\n\n two \n", encoding="utf-8")
    assert read_sentences(str(path)) == ("one\u2028still one", "two")


def test_an_empty_file_of_sentences_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_text("\n \n")
    with pytest.raises(ValueError, match="no sentence"):
        read_sentences(str(path))

"""Requests are made beforehand: the right texts with the right options, drawn in the wanted shares, again and again."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.loadtest.load.corpus import CAPTION, TRANSLATE, Corpus, Payload, build_corpus, read_sentences
from regard.loadtest.load.traffic import BUILT_IN_CLASSES, LENGTHS, SIZES, TrafficClass, parse_classes
from regard.v1.attention_pb2 import ATTENTION_GRANULARITY_WORD
from regard.v1.captioning_pb2 import CaptionRequest
from regard.v1.translation_pb2 import TranslateRequest

PICTURES = {size: (size.encode(), b"another") for size in SIZES}
TRANSLATIONS = tuple(name for name, traffic in BUILT_IN_CLASSES.items() if not traffic.pictures)
CAPTIONS = tuple(name for name in BUILT_IN_CLASSES if name not in TRANSLATIONS)


def corpus_of(classes: Sequence[TrafficClass], *, sentences: Sequence[str] = ("a b",), seed: int = 1) -> Corpus:
    return build_corpus(sentences=sentences, pictures=PICTURES.__getitem__, classes=classes, seed=seed)


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_every_built_in_class_finds_sentences_of_its_length(name: str) -> None:
    corpus = corpus_of([BUILT_IN_CLASSES[name]], sentences=read_sentences())
    shortest, longest = LENGTHS[BUILT_IN_CLASSES[name].length]
    texts = [text for payload in corpus.payloads for text in TranslateRequest.FromString(payload.body).texts]
    assert texts
    assert all(shortest <= len(text.split()) <= longest for text in texts)


def test_a_payload_asks_for_what_its_class_says() -> None:
    traffic = TrafficClass(name="all", texts=3, beam_size=4, attention=True, model="m")
    [payload, *_] = corpus_of([traffic]).payloads
    request = TranslateRequest.FromString(payload.body)
    assert (len(request.texts), request.decoding.beam_size, request.model) == (3, 4, "m")
    assert request.HasField("attention")


def test_a_plain_class_leaves_all_choices_to_the_server() -> None:
    [payload] = corpus_of([TrafficClass(name="plain")], sentences=["a"]).payloads
    body = TranslateRequest(texts=["a"]).SerializeToString(deterministic=True)
    assert payload == Payload("plain", TRANSLATE, attention=False, body=body)


def test_a_plain_class_of_captions_leaves_all_choices_to_the_server_too() -> None:
    [payload, _] = corpus_of([TrafficClass(name="plain", pictures=1, size="large")]).payloads
    body = CaptionRequest(images=[b"large"]).SerializeToString(deterministic=True)
    assert payload == Payload("plain", CAPTION, attention=False, body=body)


def test_a_payload_of_pictures_asks_for_what_its_class_says() -> None:
    traffic = TrafficClass(name="all", pictures=3, beam_size=4, attention=True, model="m")
    [payload, *_] = corpus_of([traffic]).payloads
    request = CaptionRequest.FromString(payload.body)
    assert (len(request.images), request.decoding.beam_size, request.model) == (3, 4, "m")
    assert request.attention.granularity == ATTENTION_GRANULARITY_WORD
    assert payload.attention


@pytest.mark.parametrize("name", CAPTIONS)
def test_every_built_in_class_of_captions_takes_pictures_of_its_size(name: str) -> None:
    traffic = BUILT_IN_CLASSES[name]
    images = [image for p in corpus_of([traffic]).payloads for image in CaptionRequest.FromString(p.body).images]
    assert set(images) == set(PICTURES[traffic.size])


def test_texts_and_pictures_mix_in_one_corpus_by_their_weights() -> None:
    corpus = corpus_of(parse_classes("any=3,caption=1"))
    indices: list[int] = corpus.draw(count=4000, seed=1).tolist()
    drawn = Counter(corpus.payloads[i].method for i in indices)
    assert abs(drawn[TRANSLATE] / 4000 - 0.75) < 0.05


@given(seed=st.integers(min_value=0, max_value=1000), worker=st.integers(min_value=0, max_value=3))
def test_the_same_seed_draws_the_same_payloads(seed: int, worker: int) -> None:
    corpus = corpus_of(parse_classes("short=2,long=1"), sentences=read_sentences(), seed=seed)
    first, second = (corpus.draw(count=40, seed=seed, worker=worker).tolist() for _ in range(2))
    assert first == second


def test_classes_are_drawn_by_their_weights() -> None:
    corpus = corpus_of(parse_classes("short=3,long=1"), sentences=read_sentences())
    indices: list[int] = corpus.draw(count=4000, seed=1).tolist()
    drawn = Counter(corpus.payloads[i].name for i in indices)
    assert abs(drawn["short"] / 4000 - 0.75) < 0.05


@pytest.mark.parametrize("text", ["shrot", "short=0", "short=-1", "short=x", "short,short", ""])
def test_a_mistake_in_the_classes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"class|weight|could not convert"):
        parse_classes(text)


def test_a_class_without_fitting_sentence_is_refused() -> None:
    with pytest.raises(ValueError, match="no sentence has 17"):
        corpus_of(parse_classes("long"), sentences=["too short"])


def test_sentences_of_a_file_are_its_lines_without_blank_ones(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_text("one\u2028still one\n\n two \n", encoding="utf-8")
    assert read_sentences(str(path)) == ("one\u2028still one", "two")


def test_an_empty_file_of_sentences_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_text("\n \n")
    with pytest.raises(ValueError, match="no sentence"):
        read_sentences(str(path))
